CREATE SCHEMA bursa;

ALTER SCHEMA bursa OWNER TO bursa_migrator;

CREATE FUNCTION bursa.check_added_postings() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
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

ALTER FUNCTION bursa.check_added_postings() OWNER TO bursa_migrator;

CREATE FUNCTION bursa.is_in_progress(row_xid xid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_xact_status(
        (CASE WHEN guess > here + 2147483648 THEN guess - 4294967296
              WHEN guess < here - 2147483648 THEN guess + 4294967296
              ELSE guess END)::text::xid8) IS NOT DISTINCT FROM 'in progress'
    FROM (SELECT here, here - here % 4294967296 + row_xid::text::bigint AS guess
          FROM (SELECT pg_current_xact_id()::text::bigint AS here) AS x) AS y
$$;

ALTER FUNCTION bursa.is_in_progress(row_xid xid) OWNER TO bursa_migrator;

CREATE FUNCTION bursa.refuse_unbalanced_entry() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
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

ALTER FUNCTION bursa.refuse_unbalanced_entry() OWNER TO bursa_migrator;

CREATE TABLE bursa.answers (
    request_id bigint NOT NULL,
    client_id uuid NOT NULL,
    answer bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

ALTER TABLE bursa.answers OWNER TO bursa_migrator;

CREATE TABLE bursa.api_keys (
    key_id bigint NOT NULL,
    party_id bigint NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    secret_sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    is_operator boolean DEFAULT false NOT NULL,
    daily_cap_micros bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_keys_daily_cap_micros_check CHECK ((daily_cap_micros >= 0)),
    CONSTRAINT api_keys_secret_sha256_check CHECK ((octet_length(secret_sha256) = 32))
)
WITH (fillfactor='70');

ALTER TABLE bursa.api_keys OWNER TO bursa_migrator;

ALTER TABLE bursa.api_keys ALTER COLUMN key_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME bursa.api_keys_key_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE bursa.balances (
    party_id bigint NOT NULL,
    currency text NOT NULL,
    available_micros bigint NOT NULL,
    held_micros bigint NOT NULL,
    pending_micros bigint NOT NULL,
    payable_micros bigint NOT NULL,
    debt_micros bigint NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

ALTER TABLE bursa.balances OWNER TO bursa_migrator;

CREATE TABLE bursa.candles (
    instrument text NOT NULL,
    minute bigint NOT NULL,
    open_micros bigint NOT NULL,
    high_micros bigint NOT NULL,
    low_micros bigint NOT NULL,
    close_micros bigint NOT NULL,
    gpu_hours bigint NOT NULL,
    trades integer NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE bursa.candles OWNER TO bursa_migrator;

CREATE TABLE bursa.command_log (
    seq bigint NOT NULL,
    epoch integer NOT NULL,
    at_ns bigint NOT NULL,
    command_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    command bytea NOT NULL,
    outcome bytea NOT NULL,
    digest bytea NOT NULL,
    CONSTRAINT command_log_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT command_log_seq_check CHECK ((seq > 0))
);

ALTER TABLE bursa.command_log OWNER TO bursa_migrator;

CREATE TABLE bursa.entries (
    entry_id bigint NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    at_ns bigint NOT NULL,
    party_id bigint NOT NULL,
    order_id bigint NOT NULL,
    rental_id bigint NOT NULL,
    memo text NOT NULL
);

ALTER TABLE bursa.entries OWNER TO bursa_migrator;

CREATE TABLE bursa.fx_rates (
    currency text NOT NULL,
    as_of date NOT NULL,
    rate_micros bigint NOT NULL,
    source text NOT NULL,
    CONSTRAINT fx_rates_rate_micros_check CHECK ((rate_micros > 0))
);

ALTER TABLE bursa.fx_rates OWNER TO bursa_migrator;

CREATE TABLE bursa.hosts (
    host_id bigint NOT NULL,
    party_id bigint NOT NULL,
    instrument text NOT NULL,
    state text NOT NULL,
    is_verified boolean NOT NULL,
    silent_since_ns bigint NOT NULL,
    is_retired boolean NOT NULL,
    reliability integer NOT NULL,
    spec bytea NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE bursa.hosts OWNER TO bursa_migrator;

CREATE TABLE bursa.inbox (
    request_id bigint NOT NULL,
    client_id uuid NOT NULL,
    command bytea NOT NULL,
    is_fresh boolean NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

ALTER TABLE bursa.inbox OWNER TO bursa_migrator;

ALTER TABLE bursa.inbox ALTER COLUMN request_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME bursa.inbox_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE bursa.instruments (
    instrument text NOT NULL,
    state text NOT NULL,
    until_ns bigint NOT NULL,
    reference_micros bigint NOT NULL,
    last_micros bigint NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE bursa.instruments OWNER TO bursa_migrator;

CREATE TABLE bursa.key_spending (
    key_id bigint NOT NULL,
    day date NOT NULL,
    command_id text NOT NULL COLLATE pg_catalog."C",
    micros bigint NOT NULL,
    CONSTRAINT key_spending_micros_check CHECK ((micros >= 0))
);

ALTER TABLE bursa.key_spending OWNER TO bursa_migrator;

CREATE TABLE bursa.leader (
    id smallint DEFAULT 1 NOT NULL,
    epoch integer NOT NULL,
    holder text NOT NULL,
    pid integer NOT NULL,
    renewed_at timestamp with time zone NOT NULL,
    CONSTRAINT leader_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT leader_id_check CHECK ((id = 1))
)
WITH (fillfactor='10', autovacuum_vacuum_threshold='50');

ALTER TABLE bursa.leader OWNER TO bursa_migrator;

CREATE TABLE bursa.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT migrations_number_check CHECK ((number > 0)),
    CONSTRAINT migrations_sha256_check CHECK ((octet_length(sha256) = 32))
);

ALTER TABLE bursa.migrations OWNER TO bursa_migrator;

CREATE TABLE bursa.orders (
    order_id bigint NOT NULL,
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
    terms bytea NOT NULL,
    placed_at_ns bigint NOT NULL,
    updated_at_ns bigint NOT NULL,
    closed_at_ns bigint NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

ALTER TABLE bursa.orders OWNER TO bursa_migrator;

CREATE TABLE bursa.parties (
    party_id bigint NOT NULL,
    tax_id text NOT NULL,
    payout_account text NOT NULL,
    is_suspended boolean NOT NULL,
    is_in_debt boolean NOT NULL,
    tax bytea NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE bursa.parties OWNER TO bursa_migrator;

CREATE TABLE bursa.party_profiles (
    party_id bigint NOT NULL,
    name text NOT NULL,
    country text NOT NULL,
    is_demo boolean DEFAULT false NOT NULL
);

ALTER TABLE bursa.party_profiles OWNER TO bursa_migrator;

CREATE TABLE bursa.postings (
    entry_id bigint NOT NULL,
    line smallint NOT NULL,
    currency text NOT NULL,
    account text NOT NULL,
    debit_micros bigint NOT NULL,
    credit_micros bigint NOT NULL,
    owner_id bigint NOT NULL,
    CONSTRAINT postings_one_side CHECK ((((debit_micros > 0) AND (credit_micros = 0)) OR ((credit_micros > 0) AND (debit_micros = 0))))
);

ALTER TABLE bursa.postings OWNER TO bursa_migrator;

CREATE TABLE bursa.rentals (
    rental_id bigint NOT NULL,
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
    start_by_ns bigint NOT NULL,
    started_at_ns bigint NOT NULL,
    ends_at_ns bigint NOT NULL,
    ended_at_ns bigint NOT NULL,
    charged_hours integer NOT NULL,
    reason text NOT NULL,
    is_in_doubt boolean NOT NULL,
    penalty_micros bigint NOT NULL,
    held_micros bigint NOT NULL,
    cost_micros bigint NOT NULL,
    hour_micros bigint NOT NULL,
    seq bigint NOT NULL
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

ALTER TABLE bursa.rentals OWNER TO bursa_migrator;

CREATE TABLE bursa.snapshots (
    seq bigint NOT NULL,
    at_ns bigint NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY bursa.snapshots ALTER COLUMN data SET STORAGE EXTERNAL;

ALTER TABLE bursa.snapshots OWNER TO bursa_migrator;

CREATE TABLE bursa.trades (
    trade_id bigint NOT NULL,
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

ALTER TABLE bursa.trades OWNER TO bursa_migrator;

CREATE TABLE bursa.transfers (
    transfer_id bigint NOT NULL,
    party_id bigint NOT NULL,
    currency text NOT NULL,
    micros bigint NOT NULL,
    is_payout boolean NOT NULL,
    state text NOT NULL,
    at_ns bigint NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT transfers_state_check CHECK ((state = ANY (ARRAY['SENT'::text, 'SETTLED'::text, 'RETURNED'::text])))
)
WITH (fillfactor='70');

ALTER TABLE bursa.transfers OWNER TO bursa_migrator;

CREATE TABLE bursa.unbalanced_entries (
    entry_id bigint NOT NULL,
    currency text NOT NULL
);

ALTER TABLE bursa.unbalanced_entries OWNER TO bursa_migrator;

ALTER TABLE ONLY bursa.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (request_id);

ALTER TABLE ONLY bursa.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY bursa.api_keys
    ADD CONSTRAINT api_keys_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY bursa.balances
    ADD CONSTRAINT balances_pkey PRIMARY KEY (party_id, currency);

ALTER TABLE ONLY bursa.candles
    ADD CONSTRAINT candles_pkey PRIMARY KEY (instrument, minute);

ALTER TABLE ONLY bursa.command_log
    ADD CONSTRAINT command_log_command_id_key UNIQUE (command_id);

ALTER TABLE ONLY bursa.command_log
    ADD CONSTRAINT command_log_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY bursa.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (entry_id);

ALTER TABLE ONLY bursa.fx_rates
    ADD CONSTRAINT fx_rates_pkey PRIMARY KEY (currency, as_of);

ALTER TABLE ONLY bursa.hosts
    ADD CONSTRAINT hosts_pkey PRIMARY KEY (host_id);

ALTER TABLE ONLY bursa.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (request_id);

ALTER TABLE ONLY bursa.instruments
    ADD CONSTRAINT instruments_pkey PRIMARY KEY (instrument);

ALTER TABLE ONLY bursa.key_spending
    ADD CONSTRAINT key_spending_pkey PRIMARY KEY (key_id, day, command_id);

ALTER TABLE ONLY bursa.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (id);

ALTER TABLE ONLY bursa.migrations
    ADD CONSTRAINT migrations_name_key UNIQUE (name);

ALTER TABLE ONLY bursa.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY bursa.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (order_id);

ALTER TABLE ONLY bursa.parties
    ADD CONSTRAINT parties_pkey PRIMARY KEY (party_id);

ALTER TABLE ONLY bursa.party_profiles
    ADD CONSTRAINT party_profiles_pkey PRIMARY KEY (party_id);

ALTER TABLE ONLY bursa.postings
    ADD CONSTRAINT postings_pkey PRIMARY KEY (entry_id, line);

ALTER TABLE ONLY bursa.rentals
    ADD CONSTRAINT rentals_pkey PRIMARY KEY (rental_id);

ALTER TABLE ONLY bursa.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY bursa.trades
    ADD CONSTRAINT trades_pkey PRIMARY KEY (trade_id);

ALTER TABLE ONLY bursa.transfers
    ADD CONSTRAINT transfers_pkey PRIMARY KEY (transfer_id);

ALTER TABLE ONLY bursa.unbalanced_entries
    ADD CONSTRAINT unbalanced_entries_pkey PRIMARY KEY (entry_id, currency);

CREATE INDEX answers_client_id ON bursa.answers USING btree (client_id);

CREATE INDEX api_keys_party ON bursa.api_keys USING btree (party_id, key_id);

CREATE INDEX hosts_party ON bursa.hosts USING btree (party_id, host_id);

CREATE INDEX orders_party ON bursa.orders USING btree (party_id, order_id);

CREATE INDEX postings_owner ON bursa.postings USING btree (owner_id, entry_id) WHERE (owner_id > 0);

CREATE INDEX rentals_buyer ON bursa.rentals USING btree (buyer_id, rental_id);

CREATE INDEX rentals_host ON bursa.rentals USING btree (host_id, rental_id);

CREATE INDEX rentals_seller ON bursa.rentals USING btree (seller_id, rental_id);

CREATE INDEX trades_instrument ON bursa.trades USING btree (instrument, trade_id);

CREATE INDEX transfers_party ON bursa.transfers USING btree (party_id, transfer_id);

CREATE TRIGGER check_added_postings AFTER INSERT ON bursa.postings REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION bursa.check_added_postings();

CREATE CONSTRAINT TRIGGER refuse_unbalanced_entry AFTER INSERT ON bursa.unbalanced_entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bursa.refuse_unbalanced_entry();

GRANT USAGE ON SCHEMA bursa TO bursa_app;
GRANT USAGE ON SCHEMA bursa TO bursa_reader;

REVOKE ALL ON FUNCTION bursa.check_added_postings() FROM PUBLIC;

REVOKE ALL ON FUNCTION bursa.is_in_progress(row_xid xid) FROM PUBLIC;

REVOKE ALL ON FUNCTION bursa.refuse_unbalanced_entry() FROM PUBLIC;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.answers TO bursa_app;
GRANT SELECT ON TABLE bursa.answers TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.api_keys TO bursa_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.balances TO bursa_app;
GRANT SELECT ON TABLE bursa.balances TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.candles TO bursa_app;
GRANT SELECT ON TABLE bursa.candles TO bursa_reader;

GRANT SELECT,INSERT ON TABLE bursa.command_log TO bursa_app;
GRANT SELECT ON TABLE bursa.command_log TO bursa_reader;

GRANT SELECT,INSERT ON TABLE bursa.entries TO bursa_app;
GRANT SELECT ON TABLE bursa.entries TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.fx_rates TO bursa_app;
GRANT SELECT ON TABLE bursa.fx_rates TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.hosts TO bursa_app;
GRANT SELECT ON TABLE bursa.hosts TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.inbox TO bursa_app;
GRANT SELECT ON TABLE bursa.inbox TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.instruments TO bursa_app;
GRANT SELECT ON TABLE bursa.instruments TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.key_spending TO bursa_app;
GRANT SELECT ON TABLE bursa.key_spending TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.leader TO bursa_app;
GRANT SELECT ON TABLE bursa.leader TO bursa_reader;

GRANT SELECT ON TABLE bursa.migrations TO bursa_app;
GRANT SELECT ON TABLE bursa.migrations TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.orders TO bursa_app;
GRANT SELECT ON TABLE bursa.orders TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.parties TO bursa_app;
GRANT SELECT ON TABLE bursa.parties TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.party_profiles TO bursa_app;
GRANT SELECT ON TABLE bursa.party_profiles TO bursa_reader;

GRANT SELECT,INSERT ON TABLE bursa.postings TO bursa_app;
GRANT SELECT ON TABLE bursa.postings TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.rentals TO bursa_app;
GRANT SELECT ON TABLE bursa.rentals TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.snapshots TO bursa_app;
GRANT SELECT ON TABLE bursa.snapshots TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.trades TO bursa_app;
GRANT SELECT ON TABLE bursa.trades TO bursa_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE bursa.transfers TO bursa_app;
GRANT SELECT ON TABLE bursa.transfers TO bursa_reader;
