#!/usr/bin/env python3
"""tools/check_tree.py finds each kind of fault in a tree that has it, and none in a tree that has none."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/check_tree.py")
GOOD_HEADER = "// What it is for.\n#ifndef SCD_{0}_A_H_\n#define SCD_{0}_A_H_\n#endif\n"


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
        return done.returncode, done.stdout


class CheckTreeTest(unittest.TestCase):
    def assert_found(self, path, text, words):
        status, out = check({path: text})
        self.assertEqual(status, 1, out)
        self.assertIn(words, out)
        self.assertIn(path, out)

    def test_good_tree(self):
        status, out = check({"kernels/a.h": GOOD_HEADER.format("KERNELS"),
                             "common/io/b.cc": '#include "kernels/a.h"\n',
                             "producer/service.cc": '#include "scd/v1/producer.pb.h"\n#include "common/io/b.h"\n',
                             "tests/a_test.cc": '#include "producer/a.h"\n#include "consumer/a.h"\n'})
        self.assertEqual(status, 0, out)

    def test_include_directions(self):
        for path, include in [("kernels/a.cc", "common/io/x.h"), ("common/io/a.cc", "common/config/x.h"),
                              ("common/config/a.cc", "common/model/x.h"), ("common/cache/a.cc", "common/wire/x.h"),
                              ("common/translate/a.cc", "common/model/x.h"), ("common/model/a.cc", "common/bundle/x.h"),
                              ("common/server/a.cc", "common/cache/x.h"), ("common/store/a.cc", "producer/x.h"),
                              ("common/store/a.cc", "common/server/x.h"), ("producer/a.cc", "consumer/x.h"),
                              ("consumer/a.cc", "producer/x.h")]:
            self.assert_found(path, f'#include "{include}"\n', "may not include " + include)

    def test_generated_headers_at_the_edges_only(self):
        self.assert_found("common/bundle/a.cc", '#include "scd/v1/codes.pb.h"\n', "generated")

    def test_style(self):
        self.assert_found("producer/a.cc", 'auto x = getenv("X");\n', "getenv")
        self.assert_found("kernels/a.cc", "#ifdef SCD_CUDA\n#endif\n", "source list")
        self.assert_found("kernels/a.h", "#ifndef X\n#endif\n", "include guard")
        self.assert_found("kernels/a.h", GOOD_HEADER.format("KERNELS").split("\n", 1)[1], "what it is for")
        self.assert_found("kernels/a.cc", "int x;\n" * 601, "more than one idea")
        self.assert_found("CMakeLists.txt", "file(GLOB sources *.cc)\n", "globbed")

    def test_empty_tree_is_not_a_pass(self):
        self.assertEqual(check({"README.md": "x"})[0], 1)


if __name__ == "__main__":
    unittest.main()
