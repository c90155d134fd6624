"""An order and its confirmation in one transaction: both are there, or neither.

PILLARBOX_DATABASE names a PostgreSQL database that has your tables and Pillarbox's, PILLARBOX_SECRETS__KEY its key.
"""

import asyncio
import os

import psycopg

from pillarbox import Pillarbox, Sms


class OutOfStock(Exception):
    """Nothing is left to sell."""


async def place_order(box: Pillarbox, connection: psycopg.AsyncConnection, number: int, *, stock: int) -> None:
    async with connection.transaction():
        await connection.execute("INSERT INTO orders (number) VALUES (%s)", [number])
        confirmation = Sms(to="+32470123456", text=f"Order {number} is yours.")
        await box.outbound.send("shop", confirmation, connection=connection)
        if stock == 0:
            raise OutOfStock


async def main() -> None:
    url = os.environ["PILLARBOX_DATABASE"]
    async with Pillarbox.open(url) as box, await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await box.tenants.set("shop", providers={"sms": {"provider": "sandbox"}})
        await connection.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY)")
        await place_order(box, connection, 1, stock=1)
        try:
            await place_order(box, connection, 2, stock=0)
        except OutOfStock:
            print("order 2: out of stock")
        orders = await (await connection.execute("SELECT number FROM orders")).fetchall()
        print(f"orders {[number for (number,) in orders]}, messages {len(await box.outbound.list())}")


if __name__ == "__main__":
    asyncio.run(main())
