-- A node that rests and takes the next event that comes alone: whoever stores that claims it for the node in the same commit.
CREATE TABLE IF NOT EXISTS hook_offer (
    holder TEXT PRIMARY KEY,
    until TEXT NOT NULL,
    lease_until TEXT NOT NULL
) STRICT, WITHOUT ROWID;
