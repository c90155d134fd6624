"""A Django project of one file: an order is stored, and its confirmation is queued when that has been committed."""

import sys
from functools import partial

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from pillarbox.sync import Email, Pillarbox

settings.configure(
    DEBUG=False,
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django-shop.db"}},
)
django.setup()


def box() -> Pillarbox:
    """One for each process. Django's SQLite file cannot be joined, so the messages have a file of their own."""
    return Pillarbox.shared("sqlite:///django-messages.db")


def confirm(number: int) -> None:
    confirmation = Email(to="ada@example.com", subject=f"Order {number}", text="It is on its way.")
    box().outbound.send("shop", confirmation, idempotency_key=f"order-{number}")


def place_order(request: HttpRequest, number: int) -> JsonResponse:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (number) VALUES (%s) ON CONFLICT DO NOTHING", [number])
        transaction.on_commit(partial(confirm, number))
    queued = [item.subject for item in box().outbound.list()]
    return JsonResponse({"queued": queued})


urlpatterns = [path("orders/<int:number>", place_order)]
application = get_wsgi_application()

if __name__ == "__main__":
    with connection.cursor() as first:
        first.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY)")
    box().tenants.set("shop", providers={"email": {"provider": "sandbox"}})
    execute_from_command_line(sys.argv)
