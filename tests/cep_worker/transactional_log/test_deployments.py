"""Which deployment of a name an epoch belongs to."""

from cep_worker.outflows.transactional_log.deployments import DeploymentEpochs


def test_epochs_belong_to_the_plan_that_was_deployed_when_they_were_counted() -> None:
    known = DeploymentEpochs([(5, 100), (7, 100), (9, 200)], epoch=12, deployed_ms=300)
    assert [known.of(epoch) for epoch in (1, 5, 7, 8, 9, 10, 12, 13)] == [0, 0, 0, 1, 1, 2, 2, 2]
    assert [known.deployed_ms(epoch) for epoch in (7, 8, 12)] == [100, 200, 300]
    known.follow(13, 300)
    assert (len(known), known.of(13)) == (3, 2)
    known.follow(15, 400)
    assert (len(known), known.of(13), known.of(14)) == (4, 2, 3)


def test_what_an_earlier_version_wrote_is_of_the_present_plan() -> None:
    known = DeploymentEpochs([(5, 0), (7, 0)], epoch=7, deployed_ms=300)
    assert (len(known), known.of(5)) == (1, 0)
    known = DeploymentEpochs([(5, 100), (6, 0)], epoch=7, deployed_ms=100)
    assert (len(known), known.of(6)) == (1, 0)


def test_epochs_that_are_counted_anew_are_not_told_apart() -> None:
    known = DeploymentEpochs([(7, 100)], epoch=1, deployed_ms=300)
    assert (len(known), known.of(1), known.of(7)) == (1, 0, 0)


def test_an_epoch_that_was_given_out_before_is_not_given_to_another_plan_or_once_more_to_the_same() -> None:
    known = DeploymentEpochs([(7, 100)], epoch=7, deployed_ms=100)
    assert [known.least_epoch(epoch, 100) for epoch in (6, 7, 8)] == [7, 0, 0], "an older copy counts on from 6"
    assert [known.least_epoch(epoch, 300) for epoch in (6, 7, 8)] == [8, 8, 0]
    known.follow(9, 300)
    assert [known.least_epoch(epoch, 300) for epoch in (8, 9)] == [9, 0]


def test_where_it_is_not_told_whose_an_epoch_was_only_later_ones_are_above_doubt() -> None:
    known = DeploymentEpochs([(7, 0)], epoch=7, deployed_ms=300)
    assert [known.least_epoch(epoch, 300) for epoch in (6, 7)] == [7, 0]
    known = DeploymentEpochs([(7, 100)], epoch=7, deployed_ms=100)
    assert [known.least_epoch(epoch, 0) for epoch in (6, 7)] == [7, 0]


def test_what_a_plan_tells_is_about_its_own_epochs() -> None:
    known = DeploymentEpochs([(5, 100)], epoch=8, deployed_ms=300)
    assert [known.speaks_of(100, epoch) for epoch in (5, 6)] == [True, False]
    assert [known.speaks_of(300, epoch) for epoch in (5, 6)] == [False, True]
    assert known.speaks_of(0, 5)
    assert known.speaks_of(0, 6)
