CREATE TABLE IF NOT EXISTS adapter_position (
    origin TEXT NOT NULL,
    place TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (origin, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS adapter_lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    lease_until TEXT NOT NULL
) STRICT, WITHOUT ROWID;
