"""The queue on real databases: what is accepted is kept, and nothing runs or ends twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from restrike.errors import Conflict, NotFound, Refused
from restrike.server.database.connect import Database
from restrike.server.jobs.history import History
from restrike.server.jobs.model import Failure, Job, JobState, Outcome
from restrike.server.jobs.queue import KILLS_LIMIT, Queue
from restrike.server.jobs.switches import Switches
from server.jobs.asking import DONE, asked, worker


@pytest.fixture
def queue(database: Database) -> Queue:
    return Queue(database)


def _claimed(queue: Queue, name: str = "one") -> Job:
    job = queue.claim(worker(name))
    assert job is not None
    return job


class TestRoom:
    def test_what_fits_nowhere_for_long_ends_as_refused(self, database: Database) -> None:
        now = 1000.0
        queue = Queue(database, clock=lambda: now)
        big, small = queue.submit(asked(need_bytes=99)), queue.submit(asked("an eight", need_bytes=5))
        assert queue.refuse_unfit(10, lambda job: f"{job.need_bytes} of 10", waited_s=60.0) == 0
        now = 1060.0
        # Control: with room for it, it goes on waiting.
        assert queue.refuse_unfit(99, lambda job: "", waited_s=60.0) == 0
        assert queue.refuse_unfit(10, lambda job: f"{job.need_bytes} of 10", waited_s=60.0) == 1
        ended = queue.job(big.id)
        assert ended.state is JobState.FAILED
        assert ended.failure is not None
        assert (ended.failure.kind, ended.failure.reason) == ("Refused", "99 of 10")
        assert queue.job(small.id).state is JobState.QUEUED
        told = History(database).events(job=big.id)[-1]
        assert (told.data["state"], told.data["class"]) == ("failed", "Refused")


class TestSubmitting:
    def test_a_job_is_kept_before_its_id_is_told(self, database: Database) -> None:
        job = Queue(database).submit(asked())
        assert Queue(database).job(job.id) == job
        assert (job.state, job.body["prompt"]) == (JobState.QUEUED, "a seven")

    def test_a_client_id_makes_a_retry_the_same_job(self, queue: Queue, database: Database) -> None:
        first = queue.submit(asked(client_id="mine"))
        assert queue.submit(asked(client_id="mine")) == first
        assert History(database).counts()["queued"] == 1

    def test_another_body_under_one_client_id_is_a_conflict(self, queue: Queue) -> None:
        queue.submit(asked(client_id="mine"))
        with pytest.raises(Conflict, match="'mine' was used for another job"):
            queue.submit(asked("an eight", client_id="mine"))

    def test_twenty_submits_of_one_client_id_at_once_are_one_job(
        self, queue: Queue, database: Database
    ) -> None:
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda _: queue.submit(asked(client_id="mine")).id, range(20)))
        assert len(ids) == 1
        assert History(database).counts()["queued"] == 1

    def test_without_a_client_id_each_submit_is_a_job(self, queue: Queue) -> None:
        assert queue.submit(asked()).id != queue.submit(asked()).id

    def test_an_unknown_id_is_unknown(self, queue: Queue) -> None:
        for look in (queue.job, queue.cancel, queue.move):
            with pytest.raises(NotFound, match="no job 'job-of-nobody'"):
                look("job-of-nobody")


class TestClaiming:
    def test_first_come_first_served(self, queue: Queue) -> None:
        ids = [queue.submit(asked(f"number {index}")).id for index in range(3)]
        assert [_claimed(queue, name).id for name in "abc"] == ids
        assert queue.claim(worker()) is None

    def test_a_claim_whose_answer_was_lost_is_given_again_to_that_worker_alone(self, queue: Queue) -> None:
        first, second = (queue.submit(asked(prompt)) for prompt in ("one", "two"))
        claimed = _claimed(queue)
        assert _claimed(queue) == claimed == queue.job(first.id)
        assert _claimed(queue, "other").id == second.id
        assert queue.finish(first.id, claimed.attempt, DONE)
        assert queue.claim(worker()) is None

    def test_a_higher_priority_goes_first(self, queue: Queue) -> None:
        queue.submit(asked("later"))
        urgent = queue.submit(asked("first", priority=5))
        assert _claimed(queue).id == urgent.id

    def test_a_claimed_job_says_where_it_went_and_why(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        assert (job.state, job.worker, job.device, job.attempt) == (JobState.RUNNING, "one", "cpu:one", 1)
        assert job.why == "first in line when it was free"

    def test_each_job_goes_to_exactly_one_of_many_workers(self, queue: Queue) -> None:
        ids = {queue.submit(asked(str(index))).id for index in range(40)}
        taken: list[str] = []
        lock = threading.Lock()

        def work(name: str) -> None:
            while (job := queue.claim(worker(name))) is not None:
                with lock:
                    taken.append(job.id)
                assert queue.finish(job.id, job.attempt, DONE)

        threads = [threading.Thread(target=work, args=(str(index),)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(ids)

    def test_a_paused_queue_gives_nothing_and_marks_nothing(self, queue: Queue, database: Database) -> None:
        job = queue.submit(asked())
        Switches(database).set_paused(True)
        assert queue.claim(worker()) is None
        assert queue.job(job.id).state is JobState.QUEUED
        Switches(database).set_paused(False)
        assert _claimed(queue).id == job.id

    def test_a_draining_queue_finishes_what_it_has_and_takes_no_more(
        self, queue: Queue, database: Database
    ) -> None:
        job = queue.submit(asked(client_id="mine"))
        Switches(database).set_draining(True)
        with pytest.raises(Refused, match="draining"):
            queue.submit(asked("an eight"))
        assert queue.submit(asked(client_id="mine")).id == job.id
        assert _claimed(queue).id == job.id


class TestEnding:
    def test_the_word_of_the_worker_is_taken_once(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        failure = Failure(kind="Refused", reason="no such step", step="base")
        assert queue.finish(job.id, job.attempt, Outcome(state=JobState.FAILED, failure=failure))
        assert not queue.finish(job.id, job.attempt, DONE)
        assert queue.job(job.id).failure == failure

    def test_an_attempt_that_lost_its_job_cannot_end_it(self, queue: Queue) -> None:
        queue.submit(asked())
        lost = _claimed(queue)
        queue.orphaned(lost.id, lost.attempt, "SIGKILL")
        again = _claimed(queue, "two")
        assert again.id == lost.id
        assert not queue.finish(lost.id, lost.attempt, DONE)
        assert queue.job(lost.id).state is JobState.RUNNING
        assert queue.finish(again.id, again.attempt, DONE)

    def test_a_job_that_kills_its_workers_is_set_aside(self, queue: Queue) -> None:
        queue.submit(asked())
        for _ in range(KILLS_LIMIT):
            job = _claimed(queue)
            queue.orphaned(job.id, job.attempt, "SIGSEGV")
        aside = queue.job(job.id)
        assert aside.state is JobState.QUARANTINED
        assert aside.failure is not None
        assert "SIGSEGV" in aside.failure.reason
        assert queue.claim(worker()) is None

    def test_deaths_that_were_not_the_jobs_fault_are_not_counted(self, queue: Queue) -> None:
        queue.submit(asked())
        for _ in range(KILLS_LIMIT + 2):
            job = _claimed(queue)
            queue.orphaned(job.id, job.attempt, "the server was stopped", killed=False)
        assert queue.job(job.id).state is JobState.QUEUED

    def test_a_run_folder_is_kept_for_the_next_attempt(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        queue.began(job.id, job.attempt, "digits/0001")
        queue.orphaned(job.id, job.attempt, "SIGKILL")
        assert _claimed(queue).run == "digits/0001"


class TestCancelling:
    def test_a_waiting_job_never_runs(self, queue: Queue) -> None:
        job = queue.submit(asked())
        assert queue.cancel(job.id).state is JobState.CANCELLED
        assert queue.claim(worker()) is None

    def test_a_running_job_is_asked_to_stop_and_its_neighbour_is_not(self, queue: Queue) -> None:
        queue.submit(asked("one"))
        queue.submit(asked("two"))
        job, neighbour = _claimed(queue), _claimed(queue, "two")
        assert queue.cancel(job.id).state is JobState.RUNNING
        assert queue.cancel_requested(job.id, job.attempt)
        assert not queue.cancel_requested(neighbour.id, neighbour.attempt)

    def test_an_ended_job_stays_as_it_is(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        queue.finish(job.id, job.attempt, DONE)
        assert queue.cancel(job.id).state is JobState.SUCCEEDED

    def test_a_worker_that_dies_while_it_cancels_ends_the_job(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        queue.cancel(job.id)
        queue.orphaned(job.id, job.attempt, "killed after the grace")
        assert queue.job(job.id).state is JobState.CANCELLED

    def test_cancelling_and_claiming_at_once_ends_one_way(self, queue: Queue) -> None:
        for index in range(20):
            job = queue.submit(asked(str(index)))
            with ThreadPoolExecutor(2) as pool:
                claimed = pool.submit(queue.claim, worker())
                queue.cancel(job.id)
            found = claimed.result()
            state = queue.job(job.id).state
            assert (found is None) == (state is JobState.CANCELLED)
            if found is not None:
                assert queue.cancel_requested(job.id, found.attempt)
                queue.finish(job.id, found.attempt, Outcome(state=JobState.CANCELLED))


class TestOrder:
    def test_a_job_is_moved_before_another(self, queue: Queue) -> None:
        first, second, third = (queue.submit(asked(str(index))).id for index in range(3))
        queue.move(third, before=second)
        assert [_claimed(queue, name).id for name in "abc"] == [first, third, second]

    def test_moves_before_one_job_keep_their_order_however_many(self, queue: Queue) -> None:
        names = [queue.submit(asked(str(index))).id for index in range(62)]
        first, last, *others = names
        for name in others:
            queue.move(name, before=last)
        assert [_claimed(queue, name).id for name in names] == [first, *others, last]

    def test_what_does_not_fit_hides_nothing_behind_it(self, queue: Queue) -> None:
        for index in range(70):
            queue.submit(asked(str(index), need_bytes=1 << 40))
        small = queue.submit(asked("small"))
        assert _claimed(queue).id == small.id

    def test_what_runs_is_not_moved(self, queue: Queue) -> None:
        queue.submit(asked())
        job = _claimed(queue)
        with pytest.raises(Conflict, match="does not wait any more"):
            queue.move(job.id, priority=3)
