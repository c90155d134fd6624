CREATE TABLE IF NOT EXISTS adapter_position (
    origin TEXT NOT NULL,
    place TEXT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (origin, place)
);

CREATE TABLE IF NOT EXISTS adapter_lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL
);
