"""The Debian package: packed, installed into a folder by dpkg, and run with a libtorch that the user has.

package_test.py BUILD LIBTORCH   a build folder and the libtorch that it was configured with
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

import skips  # noqa: E402

BUILD = LIBTORCH = ""


def output(*words, **options) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        output(str(ROOT / "scripts" / "deb.sh"), BUILD, str(cls.folder))
        (cls.package,) = cls.folder.glob("accrue_*.deb")
        cls.root = cls.folder / "root"
        (cls.root / "var/lib/dpkg").mkdir(parents=True)
        (cls.root / "var/lib/dpkg/status").touch()
        cls.dpkg("--install", str(cls.package))
        cls.program = cls.root / "usr/bin/accrue"

    @classmethod
    def dpkg(cls, *words, root=None):
        """On a root of its own, which has none of the packages that this one depends on."""
        output("dpkg", f"--root={root or cls.root}", f"--log={cls.folder}/log", "--force-not-root", "--force-depends", *words)

    def run_program(self, *words, libtorch: str, **options) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        return subprocess.run([self.program, *words], env=environment | {"ACCRUE_LIBTORCH": libtorch}, capture_output=True, text=True,
                              timeout=300, check=False, **options)

    def test_depends_on_what_it_was_linked_with(self):
        depends = output("dpkg-deb", "--field", str(self.package), "Depends")
        for name in ("libc6 ", "libgomp1", "libpcre2-8-0", "libsodium23", "libspng0"):
            self.assertIn(name, depends)

    def test_names_no_folder_of_the_build(self):
        program = self.root / "usr/lib/accrue/accrue"
        self.assertIn("[$ORIGIN/lib]", output("readelf", "-d", str(program)))
        self.assertNotIn(str(ROOT), output("readelf", "-d", str(program)))

    def test_trains_with_the_users_libtorch(self):
        (self.folder / "text.txt").write_text("".join(f"line {i} of a text\n" for i in range(500)))
        shutil.copy(pathlib.Path(__file__).with_name("run.toml"), self.folder)
        done = self.run_program("train", "run.toml", libtorch=LIBTORCH, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "run" / "run.json").exists(), done.stderr)

    def test_says_what_to_do_where_there_is_no_libtorch(self):
        done = self.run_program("--version", libtorch=str(self.folder))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^error: accrue: expected libtorch [0-9.]+, received none .*; try .*pip install torch==")

    def test_refuses_another_version_of_libtorch(self):
        other = self.folder / "other"
        (other / "lib").mkdir(parents=True)
        (other / "lib/libtorch_cpu.so").touch()
        (other / "build-version").write_text("1.13.1+cpu\n")
        done = self.run_program("--version", libtorch=str(other))
        self.assertEqual(done.returncode, 2)
        self.assertIn("received 1.13.1", done.stderr)

    def test_leaves_nothing_when_it_is_removed(self):
        copy = self.folder / "copy"
        shutil.copytree(self.root, copy, symlinks=True)
        self.dpkg("--purge", "accrue", root=copy)
        self.assertEqual([str(path) for path in copy.rglob("*accrue*")], [])


if __name__ == "__main__":
    for needed in ("dpkg", "dpkg-shlibdeps", "file", "cpack"):
        if not shutil.which(needed):
            skips.missing_in_build(f"there is no {needed}")
    BUILD, LIBTORCH = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
