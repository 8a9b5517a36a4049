"""Which endpoint is chosen: never a stale one, same host first, fewest live connections, then by name."""

from cep_common.ids import Endpoint
from cep_manager.control.assignment import Candidate, Promise, choose, live_connections

LEASE_MS = 3_000


def candidate(
    instance: str, host: str = "a", connections: tuple[str, ...] = (), silent_ms: int = 0, promised: int = 0
) -> Candidate:
    promises = tuple(Promise(f"other-{number}", "S", 0) for number in range(promised))
    return Candidate(instance, Endpoint(host, 15_000), connections, promises, silent_ms)


def chosen(candidates: list[Candidate], host: str = "a") -> str | None:
    found = choose(candidates, host, LEASE_MS).chosen
    return found.instance if found else None


def test_an_endpoint_on_the_requesters_host_goes_before_a_less_loaded_remote_one() -> None:
    assert chosen([candidate("remote", "b"), candidate("near", "a", ("x", "y"))]) == "near"


def test_without_one_on_the_same_host_the_fewest_live_connections_decide() -> None:
    assert chosen([candidate("r#0", "b", ("x", "y")), candidate("r#1", "c", ("x",))]) == "r#1"


def test_a_stale_endpoint_on_the_same_host_does_not_hide_a_healthy_remote_one() -> None:
    choice = choose([candidate("near", "a", silent_ms=LEASE_MS), candidate("remote", "b")], "a", LEASE_MS)
    assert choice.chosen is not None
    assert choice.chosen.instance == "remote"
    assert [ignored.instance for ignored in choice.ignored] == ["near"]


def test_an_endpoint_is_stale_exactly_at_its_lease() -> None:
    assert chosen([candidate("r#0", silent_ms=LEASE_MS - 1)]) == "r#0"
    assert chosen([candidate("r#0", silent_ms=LEASE_MS)]) is None


def test_who_was_linked_to_an_instance_gets_it_again_while_it_is_there() -> None:
    candidates = [candidate("near", "a"), candidate("former", "b", ("x", "y"))]
    again = choose(candidates, "a", LEASE_MS, former="former").chosen
    assert again is not None
    assert again.instance == "former"
    gone = [candidate("near", "a"), candidate("former", "b", silent_ms=LEASE_MS)]
    other = choose(gone, "a", LEASE_MS, former="former").chosen
    assert other is not None
    assert other.instance == "near"


def test_promises_count_as_connections() -> None:
    assert chosen([candidate("r#0", promised=1), candidate("r#1")]) == "r#1"


def test_equals_are_told_apart_by_name_whatever_their_order() -> None:
    first, second = candidate("r#0"), candidate("r#1")
    assert chosen([first, second]) == chosen([second, first]) == "r#0"


def test_no_candidates_give_no_choice() -> None:
    assert chosen([]) is None


def test_a_promise_that_became_a_connection_is_counted_once() -> None:
    promises = (Promise("w1", "Arrivals", 0), Promise("w1", "Departures", 0))
    assert live_connections(("w1/Arrivals", "w1/Departures"), promises) == 2
    assert live_connections(("w1", "w1"), promises) == 2


def test_of_two_promises_to_one_requester_the_one_not_seen_yet_still_counts() -> None:
    promises = (Promise("w1", "Arrivals", 0), Promise("w1", "Departures", 0))
    assert live_connections(("w1/Arrivals",), promises) == 2
    assert live_connections((), promises) == 2


def test_a_requester_whose_name_begins_like_anothers_is_not_taken_for_it() -> None:
    assert live_connections(("w10/S",), (Promise("w1", "S", 0),)) == 2
