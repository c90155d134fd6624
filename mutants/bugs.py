"""The planted bugs: mistakes that queues have really been shipped with, each as small as it can be written."""

from __future__ import annotations

from mutants.bug import Bug, Edit

_LANE = "tests/contracts/test_inbound_lane.py"
_HOOK_LEASES = "tests/contracts/test_hook_leases.py"
_HANDING = "tests/contracts/test_handing_over.py"
_OUTBOUND = "tests/contracts/test_outbound_lane.py"
_DRAIN = "src/pillarbox/engine/drain.py"
_WRITER = "src/pillarbox/storage/writer.py"
_INBOUND_SQL = "src/pillarbox/inbound/queries.sql"
_HOOK_SQL = "src/pillarbox/hooks/queries.sql"

STORING = (
    Bug(
        "acknowledged before it is committed",
        _WRITER,
        '            self._connection.execute("BEGIN IMMEDIATE")\n'
        "            self._run_all(jobs)\n"
        '            self._connection.execute("COMMIT")\n',
        "            if self._connection.in_transaction:\n"
        '                self._connection.execute("COMMIT")\n'
        '            self._connection.execute("BEGIN IMMEDIATE")\n'
        "            self._run_all(jobs)\n",
        ("tests/contracts/test_database.py::test_a_write_outlives_a_process_that_is_killed_right_after_it",),
    ),
    Bug(
        "a claim is made that was withdrawn",
        "src/pillarbox/storage/standing.py",
        "if self._begun or self._withdrawn or self.loop.is_closed():",
        "if self._begun or self.loop.is_closed():",
        ("tests/contracts/test_standing.py::test_what_is_withdrawn_claims_nothing",),
    ),
    Bug(
        "a quick claim keeps the token of the one before",
        "src/pillarbox/hooks/lone.sql",
        "coalesced with.\nUPDATE hook_strand\nSET token = token + 1, due_at",
        "coalesced with.\nUPDATE hook_strand\nSET token = token, due_at",
        ("tests/contracts/test_standing.py::test_who_held_an_event_before_can_no_longer_settle_it",),
    ),
    Bug(
        "SQLite told not to wait for the disk",
        "src/pillarbox/storage/sqlite_connection.py",
        'connection.pragma("synchronous", "full")',
        'connection.pragma("synchronous", "off")',
        ("tests/contracts/test_sqlite.py::test_a_connection_commits_to_disk",),
    ),
    Bug(
        "what a full disk rolled back is not done again for the innocent",
        _WRITER,
        "        if len(jobs) > 1 and self._broken is None and not isinstance(error, apsw.BusyError):\n",
        "        if len(jobs) > _MOST_TOGETHER:\n",
        ("tests/contracts/test_sqlite.py::test_a_full_disk_fails_who_needs_room_and_is_over_when_there_is_some",),
    ),
    Bug(
        "a commit whose answer was lost is taken for done",
        "src/pillarbox/storage/postgres.py",
        "if unknown is not None and self._did_commit(connection, serial):",
        "if unknown is not None:",
        ("tests/contracts/test_postgres.py::test_a_connection_cut_at_commit_leaves_exactly_one_row",),
    ),
    Bug(
        "a commit whose answer was lost is run again as if nothing had come of it",
        "src/pillarbox/storage/postgres_exchange.py",
        "        self.result = result if self._changes else None\n",
        "        self.result = None\n",
        (
            "tests/contracts/test_lost_answers.py::test_a_message_is_stored_once_and_has_the_id_it_was_given",
            "tests/contracts/test_lost_answers.py::test_an_event_is_stored_once_and_has_the_id_it_was_given",
        ),
    ),
    Bug(
        "new work is taken until the last byte of the disk",
        "src/pillarbox/storage/reserve.py",
        "            return self._look(spare)\n",
        "            return self._look(spare) or bool(self._size)\n",
        ("tests/troubles/test_full_disks.py::test_a_reserve_of_nothing_never_refuses",),
    ),
)

DRAINING = (
    Bug(
        "a lost wake-up: the bell is cleared after looking",
        _DRAIN,
        "                    if not await self._take_turn():\n",
        "                    more = await self._take_turn()\n"
        "                    self._bell.clear()\n"
        "                    if not more:\n",
        (
            "tests/simulation/test_simulation.py::test_every_due_time_is_kept_when_nothing_is_in_the_way",
            "tests/simulation/test_simulation.py::test_whatever_fails_the_promises_hold",
        ),
    ),
    Bug(
        "marked before it is delivered",
        _DRAIN,
        "                outcome = await self._attempt(flight, row)\n",
        "                outcome = Delivered()\n                asyncio.ensure_future(self._attempt(flight, row))\n",
        ("tests/engine/test_drain.py::test_a_failure_ends_its_strand",),
    ),
    Bug(
        "an outcome that could not be written is forgotten",
        _DRAIN,
        "        self._finished[:0] = settlements\n        log.warning(\n",
        "        log.warning(\n",
        ("tests/engine/test_drain.py::test_an_outcome_is_kept_until_the_store_takes_it",),
    ),
    Bug(
        "a delivery begins although its lease is over",
        "src/pillarbox/engine/attempt.py",
        "        if flight.is_lost(began):\n            log.info(",
        "        if flight.lost:\n            log.info(",
        ("tests/simulation/test_simulation.py::test_whatever_fails_the_promises_hold",),
    ),
    Bug(
        "renewal goes on past the delivery's own deadline",
        "src/pillarbox/engine/renewal.py",
        "candidates = [held for held in everything if began < held.deadline]",
        "candidates = everything",
        ("tests/engine/test_renewal.py::test_nothing_is_renewed_past_its_deadline",),
    ),
    Bug(
        "renewal on the loop, which a busy delivery starves",
        "src/pillarbox/engine/renewal.py",
        "        self._worker.start()\n",
        "        import asyncio\n\n"
        "        async def turn() -> None:\n"
        "            while self._worker is not None:\n"
        "                await asyncio.sleep(self.interval)\n"
        "                self.tick()\n\n"
        "        asyncio.ensure_future(turn())\n",
        ("tests/engine/test_renewal.py::test_leases_are_renewed_while_the_event_loop_is_kept_busy",),
    ),
    Bug(
        "who wakes up ends the leases that others took while it slept",
        "src/pillarbox/storage/overlong.py",
        "    if (yield queries.overlong(horizon=clock.now() + lease + _SPARE)):\n        now = clock.now()\n",
        "    now = clock.now()\n    if (yield queries.overlong(horizon=now + lease + _SPARE)):\n        clock.now()\n",
        (
            "tests/contracts/test_outbound_lane.py"
            "::test_who_stood_still_before_it_looked_cuts_no_hold_that_others_took_meanwhile",
        ),
    ),
    Bug(
        "one destination may have every place of a node",
        "src/pillarbox/engine/room.py",
        "max(1, concurrency * 3 // 4)",
        "max(1, concurrency)",
        ("tests/engine/test_room.py::test_a_destination_gets_three_quarters_and_at_least_one",),
    ),
)

INBOUND = (
    Bug(
        "leapfrog: the next message passes one that waits for its retry",
        "src/pillarbox/inbound/lane.py",
        "                return key, message.seq, outcome.at, 1, 0, None, None, None\n            case Skipped():",
        "                return key, message.seq + 1, now, 1, 0, None, None, None\n            case Skipped():",
        (f"{_LANE}::test_a_waiting_head_holds_back_what_stands_behind_it",),
    ),
    Bug(
        "no rescue: what a dead worker held stays held",
        "src/pillarbox/inbound/lane.py",
        "        if overdue:\n",
        "        if overdue and not looks:\n",
        (f"{_LANE}::test_a_lease_ends_exactly_when_it_should",),
    ),
    Bug(
        "unfenced settle of a message",
        "src/pillarbox/inbound/lane.py",
        "strand is not None and strand.in_flight and strand.token == settlement.strand.token",
        "strand is not None and strand.in_flight",
        (f"{_LANE}::test_a_lease_that_is_over_is_rescued_and_its_holder_fenced_out",),
    ),
    Bug(
        "delivered after the close: who delivers may still report",
        _INBOUND_SQL,
        "head_seq = NULL, due_at = NULL, lease_until = NULL, holder = NULL, token = token + 1,\n    open_count = 0",
        "open_count = 0",
        (f"{_LANE}::test_closing_expires_all_that_is_open_and_fences_out_who_delivers",),
    ),
    Bug(
        "claimed after the close: what had been waiting stays due",
        _INBOUND_SQL,
        "SET state = 'closed', head_seq = NULL, due_at = NULL, lease_until",
        "SET state = 'closed', due_at = COALESCE(due_at, lease_until), lease_until",
        (f"{_LANE}::test_closing_expires_all_that_is_open_and_fences_out_who_delivers",),
    ),
    Bug(
        "delivered after the close: a claim whose answer was lost",
        "src/pillarbox/inbound/lane.py",
        '        elif (row[_STATUS], row[_TOKEN]) == ("processing", token + 1):\n',
        "        else:\n",
        (
            "tests/contracts/test_lost_answers.py"
            "::test_what_was_closed_or_expired_before_the_claim_was_heard_of_is_not_delivered",
        ),
    ),
    Bug(
        "a closed session takes messages",
        "src/pillarbox/inbound/strands.py",
        '        elif strand.state == "closed":\n',
        '        elif strand.state == "shut":\n',
        (f"{_LANE}::test_a_closed_and_an_unknown_session_refuse_messages",),
    ),
    Bug(
        "dedup by looking first and inserting then",
        _INBOUND_SQL,
        "WHERE true\nON CONFLICT (origin, source_message_id) WHERE source_message_id IS NOT NULL DO NOTHING\n",
        "WHERE true\n",
        ("tests/contracts/test_inbound_enqueue.py::test_one_source_id_at_once_from_two_nodes_makes_one_message",),
        also=tuple(
            Edit(
                f"src/pillarbox/storage/migrations/{kind}/0001_sessions_and_inbound.sql",
                "CREATE UNIQUE INDEX IF NOT EXISTS idx_inbound_queue_source_dedup",
                "CREATE INDEX IF NOT EXISTS idx_inbound_queue_source_dedup",
            )
            for kind in ("postgres", "sqlite")
        ),
    ),
    Bug(
        "a repeat in the same set takes a place in the queue",
        "src/pillarbox/inbound/strands.py",
        "        elif source is None or first_of.setdefault(source, position) == position:\n",
        "        else:\n",
        ("tests/contracts/test_inbound_enqueue.py::test_duplicates_within_one_set_are_found",),
    ),
    Bug(
        "the claim forgets to count its attempt",
        _INBOUND_SQL,
        "token = rows.token,\n    attempt_count = inbound_queue.attempt_count + 1\n",
        "token = rows.token\n",
        (f"{_LANE}::test_a_claim_marks_the_row_and_counts_the_attempt",),
    ),
)

HOOKS = (
    Bug(
        "coalescing drops a critical event",
        "src/pillarbox/hooks/coalesce.py",
        "            end_burst()\n            kept.append(mark)\n",
        "            end_burst()\n            if mark.event_type != 'notification':\n                kept.append(mark)\n",
        ("tests/hooks/test_coalesce.py::test_critical_events_are_all_kept_in_order",),
    ),
    Bug(
        "coalescing reaches across a critical event",
        "src/pillarbox/hooks/coalesce.py",
        "            end_burst()\n            kept.append(mark)\n",
        "            kept.append(mark)\n",
        ("tests/hooks/test_coalesce.py::test_whatever_is_superseded_names_a_later_kept_event_of_its_type_and_segment",),
    ),
    Bug(
        "one offer is taken for every event that comes",
        "src/pillarbox/hooks/lone.sql",
        "DELETE FROM hook_offer WHERE holder = :holder\n",
        "DELETE FROM hook_offer WHERE holder = :holder AND false\n",
        (f"{_HANDING}::test_an_offer_is_for_one_event",),
    ),
    Bug(
        "an event is handed over past what its session has waiting",
        "src/pillarbox/hooks/lone.sql",
        "WHERE hook_strand.head_seq IS NULL\nRETURNING holder",
        "RETURNING holder",
        (f"{_HANDING}::test_nothing_is_handed_over_past_what_its_session_has_waiting",),
    ),
    Bug(
        "an event is handed to a node whose death nobody would see",
        "src/pillarbox/hooks/lone.sql",
        " AND instr(holder, :near) > 0",
        "",
        (f"{_HANDING}::test_nothing_is_handed_to_somebody_whose_death_nobody_would_see",),
    ),
    Bug(
        "who stops is still handed events",
        "src/pillarbox/hooks/lane.py",
        "            yield from self._offers.withdraw()\n            return (yield",
        "            return (yield",
        (f"{_HANDING}::test_who_retires_is_handed_nothing_more",),
    ),
    Bug(
        "room is laid out over what others have just committed",
        "src/pillarbox/storage/log_room.py",
        '    connection.execute("BEGIN IMMEDIATE")\n',
        '    connection.execute("BEGIN")\n',
        ("tests/contracts/test_log_room.py::test_where_somebody_else_writes_for_too_long_it_is_left_out",),
    ),
    Bug(
        "unfenced settle of an event",
        "src/pillarbox/hooks/settling.py",
        "now is not None and now.in_flight and now.token == strand.token",
        "now is not None and now.in_flight",
        (f"{_HOOK_LEASES}::test_whoever_lost_the_lease_changes_nothing_any_more",),
    ),
    Bug(
        "order by serial id",
        _HOOK_SQL,
        "ORDER BY rows.session_id, q.seq\n\n-- name: window",
        "ORDER BY rows.session_id, q.id\n\n-- name: window",
        ("tests/contracts/test_hook_operators.py::test_a_dead_event_goes_again_behind_all_that_waits",),
    ),
    Bug(
        "a rescue forgets the events behind the first",
        _HOOK_SQL,
        "WHERE hook_outbox.session_id = rows.session_id AND hook_outbox.seq > rows.seq AND hook_outbox.seq <= s.held_seq\n",
        "WHERE hook_outbox.session_id = rows.session_id AND hook_outbox.seq > rows.seq AND hook_outbox.seq < 0\n",
        (f"{_HOOK_LEASES}::test_a_lost_lease_costs_every_held_row_an_attempt_and_the_head_a_death",),
    ),
    Bug(
        "spooled events are removed although they were not stored",
        "src/pillarbox/hooks/pickup.py",
        "            if not batch.stored:\n                return\n",
        "",
        ("tests/hooks/test_spool.py::test_events_that_were_not_stored_stay",),
    ),
    Bug(
        "a receiver overtakes what waits in the spool",
        "src/pillarbox/hooks/receiver.py",
        "        if slot is not None and not slot.has_events():\n",
        "        if slot is not None:\n",
        ("tests/hooks/test_receiver.py::test_a_locked_database_is_waited_for_a_second_and_nobody_overtakes_the_spool",),
    ),
)

OUTBOUND = (
    Bug(
        "an opt-out is looked at only when a message comes in",
        "src/pillarbox/outbound/taking.py",
        "    refused |= opted_out_among(admitted, opted)\n",
        "",
        ("tests/contracts/test_outbound_enqueue.py::test_an_opt_out_after_the_enqueue_stops_what_waits",),
    ),
    Bug(
        "unfenced settle of an attempt",
        "src/pillarbox/outbound/queries.sql",
        "AND q.token = rows.token AND q.lease_until IS NOT NULL ORDER BY q.message_id :lock(q)",
        "AND q.lease_until IS NOT NULL ORDER BY q.message_id :lock(q)",
        (f"{_OUTBOUND}::test_a_report_that_comes_late_changes_nothing",),
    ),
    Bug(
        "a message whose sender died is given up after its first attempt",
        "src/pillarbox/outbound/settling.py",
        "now if attempt < last else None)",
        "now if attempt < 1 else None)",
        (f"{_OUTBOUND}::test_what_a_dead_process_held_is_unknown_and_tried_again_at_once",),
    ),
    Bug(
        "an idempotency key that somebody was quicker with sends twice",
        "src/pillarbox/outbound/enqueue.py",
        "    return [position for position in fresh if orders[position].named is None or orders[position].named in won]\n",
        "    return [position for position in fresh if won is not None]\n",
        ("tests/contracts/test_outbound_enqueue.py::test_one_key_at_once_from_two_nodes_makes_one_message",),
    ),
    Bug(
        "an opt-out answers while sends are about to begin",
        "src/pillarbox/outbound/opting_out.py",
        "        if not any(hashed in claimed and instant(at) > youngest for claimed, at in rows):\n",
        "        if not any(hashed in claimed and instant(at) > database.clock.now() for claimed, at in rows):\n",
        (
            "tests/outbound/test_opt_out_races.py::test_an_opt_out_waits_for_sends_that_were_claimed_and_are_about_to_begin",
        ),
    ),
)

INBOX = (
    Bug(
        "a key is marked by whoever says so",
        "src/pillarbox/inbox/queries.sql",
        "WHERE inbox.digest = rows.digest AND inbox.lease_id = rows.lease_id AND inbox.status <> 'free'\n",
        "WHERE inbox.digest = rows.digest AND inbox.status <> 'free'\n",
        (
            "tests/contracts/test_inbox_store.py::test_a_lease_that_is_over_goes_to_the_next_caller_and_its_holder_can_change_nothing",
        ),
    ),
    Bug(
        "a lease that still runs goes to the next caller",
        "src/pillarbox/inbox/queries.sql",
        "inbox.lease_until <= excluded.last_seen\n",
        "inbox.lease_until <= excluded.lease_until\n",
        ("tests/contracts/test_inbox_store.py::test_one_caller_acquires_and_the_others_are_told_it_is_busy",),
    ),
)

BUGS = (*STORING, *DRAINING, *INBOUND, *HOOKS, *OUTBOUND, *INBOX)
