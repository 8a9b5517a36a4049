"""No single step of a script blocks its process: steps that could take long fail first, as errors of the script."""

from __future__ import annotations

import time

import pytest

from siddhi.scripts.python import compile_python

COSTLY = [
    "return 7 ** (10 ** data[0])",
    "return pow(7, 10 ** data[0])",
    "return pow(3 ** 100000, 3 ** 100000, 5 ** 100000)",
    "return 1 << 10 ** data[0]",
    "x = 7\nx **= 10 ** data[0]\nreturn x",
    "x = 1\nx <<= 10 ** data[0]\nreturn x",
    "x = 3 ** 100000\nfor _ in range(40):\n    x *= x\nreturn x",
    "return len('a' * 10 ** data[0])",
    "return len(10 ** data[0] * [1])",
    "x = [1]\nx *= 10 ** data[0]\nreturn len(x)",
    "x = 'abcd'\nfor _ in range(60):\n    x = x + x\nreturn len(x)",
    "x = 'abcd'\nfor _ in range(60):\n    x += x\nreturn len(x)",
    "x = (1, 2)\nfor _ in range(60):\n    x += x\nreturn len(x)",
    "return len('%999999999999d' % 1)",
    "return len('%*d' % (10 ** data[0], 1))",
    "return len(f'{1:9999999999}')",
    "return len(f'{1.5:.{10 ** data[0]}f}')",
    "return len(f'{1!r:>{10 ** data[0]}}')",
    "return len('a'.ljust(10 ** data[0]))",
    "return len('a'.zfill(10 ** data[0]))",
    "f = 'a'.center\nreturn len(f(10 ** data[0]))",
    "return len('\\t'.expandtabs(10 ** data[0]))",
    "x = 'a' * 10000\nreturn len(x.replace('a', x))",
    "x = 'a' * 10000\nreturn len(x.replace('', x))",
    "x = 'a' * 10000\nreturn len(x.join(x))",
    "x = 'a' * 10000\nreturn len(x.translate({97: x}))",
    "return math.factorial(10 ** data[0])",
    "return math.perm(10 ** data[0])",
    "return math.comb(10 ** data[0], 10 ** data[0] // 2)",
    "return math.prod([3 ** 100000] * 100)",
    "return math.lcm(3 ** 100000, 5 ** 100000, 7 ** 90000)",
    "return round(12345, 0 - 10 ** data[0])",
    "return len(sum([[1]] * 100000, []))",
    "return sum(range(10 ** data[0] * 1000))",
    "return (1).to_bytes(10 ** data[0], 'big')",
    "return int.to_bytes(1, 10 ** data[0], 'big')",
    "return len(str.ljust('a', 10 ** data[0]))",
    "x = 'a' * 10000\nreturn len(str.replace(x, 'a', x))",
    "x = [1]\nfor _ in range(24):\n    x.extend(x)\nreturn len(x)",
    "x = [1]\nfor _ in range(24):\n    list.extend(x, x)\nreturn len(x)",
    "x = 'a'\nfor _ in range(24):\n    x = '%s%s' % (x, x)\nreturn len(x)",
    "x = 'a'\nfor _ in range(24):\n    x = f'{x}{x}'\nreturn len(x)",
    "x = 'a' * 1000000\nreturn len('%(a)s' * 100 % {'a': x})",
    "return len('%((a))999999999s' % {'(a)': 'x'})",
    "x = [1]\nfor _ in range(24):\n    x = [*x, *x]\nreturn len(x)",
    "x = (1,)\nfor _ in range(24):\n    x = (*x, *x)\nreturn len(x)",
    "x = [1]\nfor _ in range(24):\n    x[0:0] = x\nreturn len(x)",
]

NEST = "x = ['a']\nfor _ in range(60):\n    x = [x, x]\n"
PAIRS = "x = (1,)\ny = (1,)\nfor _ in range(60):\n    x = (x, x)\n    y = (y, y)\n"
COSTLY += [
    NEST + "return str(x)",
    NEST + "f = str\nreturn f(x)",
    NEST + "return f'{x}'",
    NEST + "return f'{x!r:>9}'",
    NEST + "return '%s' % (x,)",
    NEST + "s = 'a'\ns += str(x)\nreturn s",
    NEST + "return x",
    NEST + "return {'a': x}",
    "x = []\nfor _ in range(60):\n    y = []\n    y.append(x)\n    y.append(x)\n    x = y\nreturn str(x)",
    PAIRS + "return x == y",
    PAIRS + "return x < y",
    PAIRS + "return 1 if x in [y] else 2",
    PAIRS + "return len({x})",
    PAIRS + "return len({x: 1})",
    PAIRS + "return len(set([x]))",
    PAIRS + "return len(dict([(x, 1)]))",
    PAIRS + "return len({n for n in [x]})",
    PAIRS + "return len({n: 1 for n in [x]})",
    PAIRS + "d = {}\nd[x] = 1\nreturn len(d)",
    PAIRS + "d = {}\nreturn d.get(x)",
    PAIRS + "s = set()\ns.add(x)\nreturn len(s)",
    PAIRS + "s = set()\nset.add(s, x)\nreturn len(s)",
    PAIRS + "return [x].index(y)",
    PAIRS + "return len(dict.fromkeys([x]))",
    PAIRS + "return list.count([x], y)",
    PAIRS + "return len(sorted([x, y]))",
    PAIRS + "return len(max(x, y))",
    "s = 'a' * 1000000\nreturn len(str([s] * 100))",
]


@pytest.mark.parametrize("body", COSTLY)
def test_a_step_that_would_take_long_fails_at_once(body: str) -> None:
    script = compile_python(body)
    begin = time.thread_time()
    with pytest.raises((ValueError, TypeError, AttributeError)):
        script([9])
    assert time.thread_time() - begin < 0.5


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("return 2 ** 10 + 3 * 4 - 7 % 4 + (1 << 4)", 1049),
        ("return 2.0 ** 0.5 * 2.0 ** 0.5 > 1.99", True),
        ("return 2 ** (0 - 1)", 0.5),
        ("return pow(3, 4, 5) + pow(2, 3)", 9),
        ("return pow(base=3, exp=4, mod=5) + pow(2, exp=3)", 9),
        ("return math.comb(1000000, 999999) + math.comb(3, 5)", 1000000),
        ("return 'order 1234567: %s' % 'a' + '2 * x = %d' % 500000", "order 1234567: a2 * x = 500000"),
        ("return '100%% of 1234567 %(of)5.1f' % {'of': 1.25}", "100% of 1234567   1.2"),
        ("x = [1, 2, 3]\nx[0] = 5\nx[1:2] = (7, 8)\ndel x[3]\nreturn [*x, *(9,)]", [5, 7, 8, 9]),
        ("x = {'a': 1}\nx['b'] = 2\na, *rest = (1, *x)\nreturn [a, *rest]", [1, "a", "b"]),
        ("return 'a' * 3 + 'b'", "aaab"),
        ("return [1] * 2 + [3]", [1, 1, 3]),
        ("return (1,) + (2,)", (1, 2)),
        ("return '%05.1f|%s' % (1.25, 'x')", "001.2|x"),
        ("return f'{1.5:8.3f}|{data[0]!r:>4}|{data[0]}'", "   1.500|   9|9"),
        ("return 'a'.ljust(3, '.') + '7'.zfill(3) + 'a-a'.replace('a', 'b', 1)", "a..007b-a"),
        ("return ', '.join(str(n) for n in range(3))", "0, 1, 2"),
        ("return 'ab'.translate({97: 'x'}) + 'a\\tb'.expandtabs(4)", "xba   b"),
        ("return math.factorial(5) + math.comb(5, 2) + math.perm(4, 2) + math.prod([2, 3]) + math.lcm(4, 6)", 160),
        ("return round(2.675, 1) + round(1250, 0 - 2) + round(2.5)", 1204.7),
        ("return sum([1, 2.5]) + sum([1], 2)", 6.5),
        ("x = [1]\nx += (2,)\nx *= 2\nreturn x", [1, 2, 1, 2]),
        (
            "return [isinstance('a', str), isinstance({}, dict), isinstance([], str), str(1) + str(), str([1, 'a'])]",
            [True, True, False, "1", "[1, 'a']"],
        ),
        (
            "return sorted(set([3, 1, 2, 1]), reverse=True) + [max(1, 2), min([3, 4]), max([], default=7)]",
            [3, 2, 1, 2, 3, 7],
        ),
        (
            "d = dict([('a', 1)], b=2)\nd[('x', 1)] = 3\nreturn [d['a'], d.get('q', 9), len(d), 'b' in d]",
            [1, 9, 3, True],
        ),
        ("return [1 < 2 < 3, 1 in (1, 2), 'a' not in {'b'}, None is None, [1, [2]] == [1, [2]]]", [True] * 5),
        (
            "return len({n % 3 for n in range(9)}) + len({n: 1 for n in 'abc'}) + len({1, 2, *(3,)}) + [5, 5].count(5)",
            11,
        ),
        ("return dict.fromkeys('ab', 1)", {"a": 1, "b": 1}),
        ("x = [1]\nx.append(x)\nreturn str(x)", "[1, [...]]"),
        ("return math.sqrt(16.0) + math.pi * 0", 4.0),
        ("x = [1]\nx.extend((n for n in (2, 3)))\nlist.extend(x, [4])\nreturn x", [1, 2, 3, 4]),
        ("return f'{1.5:{4 + 4}.{data[0] - 6}f}' + f'{f\"{2}\"}{{}}'", "   1.5002{}"),
        ("return str.ljust('a', 3, '.') + str.join('-', ['b', 'c']) + '%(d)s' % {'d': 'e'}", "a..b-ce"),
    ],
)
def test_ordinary_steps_are_those_of_python(body: str, result: object) -> None:
    assert compile_python(body)([9]) == result
