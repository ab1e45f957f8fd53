#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
pyverbs_tap.py TESTS DEVICE [ARGUMENT...]: runs rdma-core's own tests, which are in the directory TESTS, and prints
TAP, one line a test. An iWARP queue pair gets to RTS with a connection, by rdma_cm only: a test that is about to
bring one up by ibv_modify_qp() is skipped at that point, with all that comes before it having passed.
"""
import importlib
import os
import re
import sys
import time
import unittest
import warnings

WITHOUT_CM = "brings a queue pair to RTS without rdma_cm, which iWARP cannot"

# Tests of what InfiniBand has and iWARP has not, that do not find out by themselves.
NOT_IWARP = {
    "test_rdmacm.CMTestCase.test_rdmacm_async_traffic": "an acknowledgment timeout, which is InfiniBand's",
    "test_rdmacm.CMTestCase.test_rdmacm_async_traffic_external_qp": WITHOUT_CM,
}


class Tap(unittest.TestResult):
    """One line for each test as it ends."""

    def __init__(self, stream):
        super().__init__()
        self.tap = stream
        self.number = 0
        self.began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def line(self, word, test, more=""):
        self.number += 1
        name = test.id().removeprefix("tests.")
        print(f"{word} {self.number} - {name}{more}", file=self.tap, flush=True)

    def bad(self, test, err):
        self.line("not ok", test)
        for text in self._exc_info_to_string(err, test).splitlines():
            print(f"# {text}", file=self.tap, flush=True)

    def addSuccess(self, test):
        milliseconds = int((time.monotonic() - self.began) * 1000)
        self.line("ok", test, f" # time={milliseconds}ms")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        # Some reasons are of several lines.
        self.line("ok", test, " # SKIP " + " ".join(str(reason).split()))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.bad(test, err)


def skip_without_cm(*_args, **_kwargs):
    raise unittest.SkipTest(WITHOUT_CM)


def closing(init):
    """What a resource has made when its making fails is left to the garbage collector otherwise, which
    closes the context before what is in it, and then the interpreter dies."""

    def wrapped(self, *args, **kwargs):
        try:
            init(self, *args, **kwargs)
        except BaseException:
            if hasattr(self, "ctx"):
                self.ctx.close()
            raise

    return wrapped


def leaves(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from leaves(test)
        else:
            yield test


def skip_what_is_not_iwarp():
    for name, reason in NOT_IWARP.items():
        module, case, method = name.split(".")
        case = getattr(importlib.import_module("tests." + module), case)
        setattr(case, method, unittest.skip(reason)(getattr(case, method)))


def load(directory):
    """All tests of the directory, by module and then by name, as its own runner has them."""
    suite = unittest.TestSuite()
    for name in sorted(os.listdir(directory)):
        if re.fullmatch(r"test_\w+\.py", name):
            module = importlib.import_module("tests." + name[:-3])
            suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    return suite


def main():
    directory = os.path.realpath(sys.argv[1])
    sys.argv[1:] = ["--dev", *sys.argv[2:]]
    sys.path[:0] = [directory, os.path.dirname(directory)]
    # What a test prints is no TAP: it goes to standard error.
    tap = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore", ResourceWarning)

    # The package itself would load every test, and its parser is what the tests ask for the device.
    package = type(sys)("tests")
    package.__path__ = [directory]
    sys.modules["tests"] = package
    importlib.import_module("args_parser").parser.parse_args()
    base = importlib.import_module("tests.base")
    base.RCResources.to_rts = skip_without_cm
    base.TrafficResources.__init__ = closing(base.TrafficResources.__init__)

    skip_what_is_not_iwarp()

    wanted = os.environ.get("TEST_FILTER", "")
    suite = unittest.TestSuite(test for test in leaves(load(directory)) if re.search(wanted, test.id()))
    print(f"1..{suite.countTestCases()}", file=tap, flush=True)
    result = Tap(tap)
    suite.run(result)
    tap.close()
    # Not by way of the interpreter's end, which destroys what tests forgot in any order.
    os._exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
