-- The tables of the exchange. Runs as bursa_migrator in one transaction; the three roles exist already (migrate() sees to it).
-- Who may what: bursa_app adds to the log, entries and postings but never changes them; bursa_reader reads.
-- No foreign keys on what a batch writes: the engine guarantees the references, `bursa admin verify` checks them.

CREATE SCHEMA bursa;
REVOKE ALL ON SCHEMA bursa FROM PUBLIC;
GRANT USAGE ON SCHEMA bursa TO bursa_app, bursa_reader;

CREATE TABLE bursa.migrations (
    number integer PRIMARY KEY CHECK (number > 0),
    name text NOT NULL UNIQUE,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- ── Order and durability ────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE bursa.leader (
    id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    epoch integer NOT NULL CHECK (epoch >= 0),
    holder text NOT NULL,
    pid integer NOT NULL, -- the backend that holds the leader's session; 0: nobody has led yet
    renewed_at timestamptz NOT NULL
);
INSERT INTO bursa.leader (epoch, holder, pid, renewed_at) VALUES (0, '', 0, 'epoch');

CREATE TABLE bursa.command_log (
    seq bigint PRIMARY KEY CHECK (seq > 0),
    epoch integer NOT NULL,
    at_ns bigint NOT NULL,
    command_id text COLLATE "C" NOT NULL UNIQUE,
    kind text NOT NULL,
    command bytea NOT NULL,
    outcome bytea NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32) -- chain over all rows up to this one
);

CREATE TABLE bursa.snapshots (
    seq bigint PRIMARY KEY,
    at_ns bigint NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE bursa.snapshots ALTER COLUMN data SET STORAGE EXTERNAL; -- compressed already, if it pays

CREATE TABLE bursa.inbox (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id uuid NOT NULL,
    command bytea NOT NULL,
    is_fresh boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE bursa.answers (
    request_id bigint PRIMARY KEY,
    client_id uuid NOT NULL,
    answer bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX answers_client_id ON bursa.answers (client_id);

-- ── Money ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE bursa.entries (
    entry_id bigint PRIMARY KEY,
    seq bigint NOT NULL,
    kind text NOT NULL,
    at_ns bigint NOT NULL,
    party_id bigint NOT NULL,
    order_id bigint NOT NULL,
    rental_id bigint NOT NULL,
    memo text NOT NULL
);

CREATE TABLE bursa.postings (
    entry_id bigint NOT NULL,
    line smallint NOT NULL,
    currency text NOT NULL,
    account text NOT NULL,
    debit_micros bigint NOT NULL,
    credit_micros bigint NOT NULL,
    owner_id bigint NOT NULL, -- the party whose statement shows it; 0: the exchange's own account
    PRIMARY KEY (entry_id, line),
    CONSTRAINT postings_one_side
        CHECK ((debit_micros > 0 AND credit_micros = 0) OR (credit_micros > 0 AND debit_micros = 0))
);
CREATE INDEX postings_owner ON bursa.postings (owner_id, entry_id) WHERE owner_id > 0;

-- Entries that did not balance at the end of a statement. Empty between transactions.
CREATE TABLE bursa.unbalanced_entries (
    entry_id bigint NOT NULL,
    currency text NOT NULL,
    PRIMARY KEY (entry_id, currency)
);

-- The quick check: once a statement, over all that it added. What does not balance yet is looked at again at commit.
-- A session keeps its plan, and may have made it while the table was empty: enable_seqscan = off keeps it to the index.
CREATE FUNCTION bursa.check_added_postings() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    closed bigint;
    here CONSTANT xid := pg_current_xact_id()::xid;
BEGIN
    -- An entry is open only within the transaction that added it. A row of a savepoint has another xid than its
    -- transaction; it is ours if it is in progress, since a foreign row in progress is not visible.
    SELECT f.entry_id INTO closed
    FROM (SELECT entry_id, (SELECT e.xmin FROM bursa.entries AS e WHERE e.entry_id = d.entry_id) AS row_xid
          FROM (SELECT DISTINCT entry_id FROM fresh) AS d OFFSET 0) AS f
    WHERE CASE WHEN f.row_xid = here THEN false
               WHEN f.row_xid IS NULL THEN true
               ELSE NOT bursa.is_in_progress(f.row_xid) END
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry % takes no postings: it is not an entry of this transaction', closed
            USING ERRCODE = 'check_violation', SCHEMA = 'bursa', TABLE = 'postings',
                  HINT = 'Add the entry before its postings, in the same transaction; a committed entry is closed.';
    END IF;

    INSERT INTO bursa.unbalanced_entries (entry_id, currency)
    SELECT entry_id, currency FROM fresh
    GROUP BY entry_id, currency
    HAVING sum(debit_micros) <> sum(credit_micros)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

-- Widens a row's xmin to 64 bits next to the running transaction, then asks for its status.
CREATE FUNCTION bursa.is_in_progress(row_xid xid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_xact_status(
        (CASE WHEN guess > here + 2147483648 THEN guess - 4294967296
              WHEN guess < here - 2147483648 THEN guess + 4294967296
              ELSE guess END)::text::xid8) IS NOT DISTINCT FROM 'in progress'
    FROM (SELECT here, here - here % 4294967296 + row_xid::text::bigint AS guess
          FROM (SELECT pg_current_xact_id()::text::bigint AS here) AS x) AS y
$$;

CREATE TRIGGER check_added_postings AFTER INSERT ON bursa.postings
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION bursa.check_added_postings();

-- The last word: at commit, over the whole entry.
CREATE FUNCTION bursa.refuse_unbalanced_entry() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    difference numeric;
BEGIN
    SELECT sum(debit_micros) - sum(credit_micros) INTO difference
    FROM bursa.postings WHERE entry_id = NEW.entry_id AND currency = NEW.currency;
    IF difference <> 0 THEN
        RAISE EXCEPTION 'entry % does not balance in %: debits minus credits are % micro-units',
            NEW.entry_id, NEW.currency, difference
            USING ERRCODE = 'check_violation', SCHEMA = 'bursa', TABLE = 'postings';
    END IF;
    DELETE FROM bursa.unbalanced_entries WHERE entry_id = NEW.entry_id AND currency = NEW.currency;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER refuse_unbalanced_entry AFTER INSERT ON bursa.unbalanced_entries
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bursa.refuse_unbalanced_entry();

REVOKE ALL ON FUNCTION bursa.check_added_postings(), bursa.is_in_progress(xid), bursa.refuse_unbalanced_entry()
    FROM PUBLIC;

-- ── What people look at: written in the batch's transaction, can be rebuilt from the log ─────────────────────────────

CREATE TABLE bursa.orders (
    order_id bigint PRIMARY KEY,
    party_id bigint NOT NULL,
    side text NOT NULL,
    instrument text NOT NULL,
    state text NOT NULL,
    price_micros bigint NOT NULL,
    gpus integer NOT NULL,
    hours integer NOT NULL,
    lots integer NOT NULL,
    filled integer NOT NULL,
    leaves integer NOT NULL,
    canceled integer NOT NULL,
    currency text NOT NULL,
    time_in_force text NOT NULL,
    expires_at_ns bigint NOT NULL,
    terms bytea NOT NULL, -- msgpack: filters, offers
    placed_at_ns bigint NOT NULL,
    updated_at_ns bigint NOT NULL,
    closed_at_ns bigint NOT NULL, -- 0: open
    seq bigint NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX orders_party ON bursa.orders (party_id, order_id);

CREATE TABLE bursa.trades (
    trade_id bigint PRIMARY KEY,
    instrument text NOT NULL,
    bid_id bigint NOT NULL,
    ask_id bigint NOT NULL,
    rental_id bigint NOT NULL,
    host_id bigint NOT NULL,
    buyer_id bigint NOT NULL,
    seller_id bigint NOT NULL,
    gpus integer NOT NULL,
    hours integer NOT NULL,
    price_micros bigint NOT NULL,
    taker text NOT NULL,
    at_ns bigint NOT NULL,
    seq bigint NOT NULL
);
CREATE INDEX trades_instrument ON bursa.trades (instrument, trade_id);

CREATE TABLE bursa.rentals (
    rental_id bigint PRIMARY KEY,
    trade_id bigint NOT NULL,
    order_id bigint NOT NULL,
    ask_id bigint NOT NULL,
    instrument text NOT NULL,
    host_id bigint NOT NULL,
    buyer_id bigint NOT NULL,
    seller_id bigint NOT NULL,
    gpus integer NOT NULL,
    gpu_mask integer NOT NULL,
    hours integer NOT NULL,
    price_micros bigint NOT NULL,
    currency text NOT NULL,
    state text NOT NULL,
    opened_at_ns bigint NOT NULL,
    start_by_ns bigint NOT NULL, -- when it fails if it has not started
    started_at_ns bigint NOT NULL, -- 0: not yet
    ends_at_ns bigint NOT NULL, -- 0: not started
    ended_at_ns bigint NOT NULL,
    charged_hours integer NOT NULL,
    reason text NOT NULL,
    is_in_doubt boolean NOT NULL,
    penalty_micros bigint NOT NULL,
    held_micros bigint NOT NULL,
    cost_micros bigint NOT NULL, -- charged so far, tax included, in the wallet's currency
    hour_micros bigint NOT NULL, -- what the next hour will cost, likewise; 0: none
    seq bigint NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX rentals_buyer ON bursa.rentals (buyer_id, rental_id);
CREATE INDEX rentals_seller ON bursa.rentals (seller_id, rental_id);
CREATE INDEX rentals_host ON bursa.rentals (host_id, rental_id);

CREATE TABLE bursa.hosts (
    host_id bigint PRIMARY KEY,
    party_id bigint NOT NULL,
    instrument text NOT NULL,
    state text NOT NULL,
    is_verified boolean NOT NULL,
    silent_since_ns bigint NOT NULL,
    is_retired boolean NOT NULL,
    reliability integer NOT NULL,
    spec bytea NOT NULL,
    seq bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX hosts_party ON bursa.hosts (party_id, host_id);

CREATE TABLE bursa.parties (
    party_id bigint PRIMARY KEY,
    tax_id text NOT NULL,
    payout_account text NOT NULL,
    is_suspended boolean NOT NULL,
    is_in_debt boolean NOT NULL,
    tax bytea NOT NULL,
    seq bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE bursa.instruments (
    instrument text PRIMARY KEY,
    state text NOT NULL,
    until_ns bigint NOT NULL,
    reference_micros bigint NOT NULL,
    last_micros bigint NOT NULL,
    seq bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE bursa.balances (
    party_id bigint NOT NULL,
    currency text NOT NULL,
    available_micros bigint NOT NULL,
    held_micros bigint NOT NULL,
    pending_micros bigint NOT NULL,
    payable_micros bigint NOT NULL,
    debt_micros bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (party_id, currency)
) WITH (fillfactor = 50);

CREATE TABLE bursa.candles (
    instrument text NOT NULL,
    minute bigint NOT NULL, -- minutes since 1970-01-01 UTC
    open_micros bigint NOT NULL,
    high_micros bigint NOT NULL,
    low_micros bigint NOT NULL,
    close_micros bigint NOT NULL,
    gpu_hours bigint NOT NULL,
    trades integer NOT NULL,
    PRIMARY KEY (instrument, minute)
) WITH (fillfactor = 70);

CREATE TABLE bursa.transfers (
    transfer_id bigint PRIMARY KEY,
    party_id bigint NOT NULL,
    currency text NOT NULL,
    micros bigint NOT NULL,
    is_payout boolean NOT NULL,
    state text NOT NULL CHECK (state IN ('SENT', 'SETTLED', 'RETURNED')),
    at_ns bigint NOT NULL,
    seq bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX transfers_party ON bursa.transfers (party_id, transfer_id);

-- Rows that change often are cleaned up early and without pauses, so that updates stay in their page.
ALTER TABLE bursa.orders SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bursa.rentals SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bursa.balances SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bursa.inbox SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bursa.answers SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bursa.leader SET (fillfactor = 10, autovacuum_vacuum_threshold = 50);

-- ── Who may call, and with what limits ──────────────────────────────────────────────────────────────────────────────

CREATE TABLE bursa.api_keys (
    key_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    party_id bigint NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL, -- the first characters, shown so that people can tell keys apart
    secret_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(secret_sha256) = 32),
    scopes text[] NOT NULL,
    is_operator boolean NOT NULL DEFAULT false,
    daily_cap_micros bigint CHECK (daily_cap_micros >= 0), -- US$ micro-units; NULL: no cap
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX api_keys_party ON bursa.api_keys (party_id, key_id);

CREATE TABLE bursa.key_spending (
    key_id bigint NOT NULL,
    day date NOT NULL,
    command_id text COLLATE "C" NOT NULL,
    micros bigint NOT NULL CHECK (micros >= 0),
    PRIMARY KEY (key_id, day, command_id)
);

CREATE TABLE bursa.party_profiles (
    party_id bigint PRIMARY KEY,
    name text NOT NULL,
    country text NOT NULL,
    is_demo boolean NOT NULL DEFAULT false
);

CREATE TABLE bursa.fx_rates (
    currency text NOT NULL,
    as_of date NOT NULL,
    rate_micros bigint NOT NULL CHECK (rate_micros > 0), -- micro-units of the currency for one EUR
    source text NOT NULL,
    PRIMARY KEY (currency, as_of)
);

-- ── Rights ──────────────────────────────────────────────────────────────────────────────────────────────────────────

GRANT SELECT ON ALL TABLES IN SCHEMA bursa TO bursa_app, bursa_reader;
REVOKE ALL ON bursa.unbalanced_entries FROM bursa_app, bursa_reader;
REVOKE ALL ON bursa.api_keys FROM bursa_reader; -- even hashes of secrets are for those who must check them
GRANT INSERT ON bursa.command_log, bursa.entries, bursa.postings TO bursa_app;
GRANT INSERT, UPDATE, DELETE ON
    bursa.leader, bursa.snapshots, bursa.inbox, bursa.answers,
    bursa.orders, bursa.trades, bursa.rentals, bursa.hosts, bursa.parties, bursa.instruments, bursa.balances,
    bursa.candles, bursa.transfers,
    bursa.api_keys, bursa.key_spending, bursa.party_profiles, bursa.fx_rates
    TO bursa_app;
