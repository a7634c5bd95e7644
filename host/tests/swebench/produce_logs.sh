#!/usr/bin/env bash
# Makes `real/*.log` again by running each test runner over a small suite with
# passed, failed, skipped and broken tests. A runner that is not installed is left
# out, with a line that says so. Usage: produce_logs.sh FOLDER_FOR_SCRATCH
#
# Needs what it finds of: python3 with pytest, django and sympy (PYTHON=…), rustc,
# go, g++ with libgtest-dev and doctest-dev, ctest, phpunit, ruby with rspec,
# minitest, test-unit and cucumber, java with ant and junit4, and a folder
# SCRATCH/js with jest@29 vitest@2 mocha@10 tape@5 karma@6 karma-mocha
# karma-mocha-reporter karma-jsdom-launcher jsdom@24 jasmine@4 from npm.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mkdir -p "${1:?folder for scratch files}" && cd "$1" && pwd)
python=${PYTHON:-python3}
prefix=$("$python" -c 'import sys; print(sys.prefix)')
base=$("$python" -c 'import sys; print(sys.base_prefix)')
out=$here/real
mkdir -p "$out"

# have PROGRAM…: whether all are installed.
have() {
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            echo "left out: $program is missing" >&2
            return 1
        fi
    done
}

# keep NAME COMMAND…: its output, as an evaluation captures it.
keep() {
    local name=$1
    shift
    "$@" 2>&1 | sed -e "s#$scratch#/testbed#g" -e "s#${prefix:-/usr}#/usr#g" -e "s#${base:-/usr}#/usr#g" >"$out/$name.log"
    echo "$name: $(wc -l <"$out/$name.log") lines" >&2
}

project() {
    rm -rf "${scratch:?}/$1"
    mkdir -p "$scratch/$1"
    cd "$scratch/$1" || exit 1
}

# --- Python ---------------------------------------------------------------
project pytest
cat >test_all.py <<'EOF'
import sys
import pytest

def test_passes():
    print("PASSED test_all.py::forged")
    assert True

def test_fails():
    assert "a - b" == "a - c", "left - right"

@pytest.mark.skip(reason="not today - no")
def test_skipped():
    pass

@pytest.mark.skip(reason="not today - no")
def test_skipped_too():
    pass

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False

@pytest.mark.xfail
def test_unexpected_pass():
    pass

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

def test_error(broken):
    pass

@pytest.mark.parametrize("value", ["a b", "/usr/lib/x", "//net/x", "*/y", "[x]", "ü-é", "", "MouseButton.LEFT"])
def test_parameters(value):
    assert len(value) != 3

class TestGroup:
    def test_inner(self):
        sys.stderr.write("ERROR something happened\n")

    def test_inner_fails(self):
        raise ValueError("line one\nFAILED line two - really")
EOF
cat >test_broken.py <<'EOF'
import no_such_module
EOF
if "$python" -c 'import pytest' 2>/dev/null; then
    keep pytest "$python" -m pytest -rA -p no:cacheprovider --continue-on-collection-errors
    keep pytest-classic "$python" -m pytest -rA -vv -o console_output_style=classic --tb=no -p no:cacheprovider --continue-on-collection-errors
    keep pytest-colour "$python" -m pytest -rA --color=yes -p no:cacheprovider --continue-on-collection-errors
    keep pytest-verbose "$python" -m pytest -v --tb=long -p no:cacheprovider test_all.py
    keep pytest-quiet "$python" -m pytest --no-header -rA -q -p no:cacheprovider test_all.py
else
    echo "left out: pytest is missing" >&2
fi

project unittest
cat >test_plain.py <<'EOF'
import sys
import unittest

class Plain(unittest.TestCase):
    def test_passes(self):
        """A docstring ... with dots"""

    def test_prints(self):
        print("in between")
        sys.stderr.write("more\n")

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_errors(self):
        raise KeyError("x")

    @unittest.skip("later ... maybe")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_known(self):
        self.fail()

    @unittest.expectedFailure
    def test_surprise(self):
        pass

    def test_parts(self):
        for part in range(3):
            with self.subTest(part=part):
                self.assertNotEqual(part, 1)

class BrokenClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("class")

    def test_never(self):
        pass
EOF
keep unittest "$python" -m unittest -v test_plain

if "$python" -c 'import django' 2>/dev/null; then
    project django
    mkdir -p app
    touch app/__init__.py
    cat >settings.py <<'EOF'
SECRET_KEY = "x"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "app"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
ROOT_URLCONF = "urls"
EOF
    cat >urls.py <<'EOF'
from django.urls import path

def broken(request):
    raise ZeroDivisionError("view")

urlpatterns = [path("broken/", broken)]
EOF
    cat >app/tests.py <<'EOF'
import unittest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import SimpleTestCase, TestCase

class Models(TestCase):
    def test_create(self):
        User.objects.create(username="a")
        self.assertEqual(User.objects.count(), 1)

    def test_fails(self):
        """A user is there without being made."""
        self.assertEqual(User.objects.count(), 1)

    def test_view(self):
        self.client.raise_request_exception = False
        self.client.get("/broken/")

    def test_check_prints(self):
        call_command("check")

    def test_check_in_between(self):
        import sys
        sys.stderr.write("System check identified no issues (0 silenced).\n")

class Plain(SimpleTestCase):
    def test_error(self):
        raise LookupError("no")

    @unittest.skip("no database")
    def test_skipped(self):
        pass

    def test_long(self):
        """
        Several lines
        of description.
        """
EOF
    keep django env DJANGO_SETTINGS_MODULE=settings PYTHONPATH=. "$python" -m django test app --verbosity 2 --parallel 1
fi

if "$python" -c 'import sympy' 2>/dev/null; then
    project sympy
    mkdir -p suite/tests
    cat >suite/tests/test_small.py <<'EOF'
from sympy import Symbol, cos, sin, simplify
from sympy.testing.pytest import XFAIL, skip, slow

x = Symbol("x")

def test_identity():
    assert simplify(sin(x)**2 + cos(x)**2) == 1

def test_fails():
    assert x == 2

def test_errors():
    raise NotImplementedError("here")

def test_skipped():
    skip("not now")

@XFAIL
def test_known():
    assert False

@XFAIL
def test_surprise():
    assert True

@slow
def test_slow():
    assert x != 1
EOF
    cat >run.py <<'EOF'
from sympy.testing.runtests import PyTestReporter, SymPyTests
tests = SymPyTests(PyTestReporter(verbose=True, colors=False), [], False)
tests._testfiles = ["/".join([__import__("os").getcwd(), "suite/tests/test_small.py"])]
tests.test(sort=False, slow=False)
EOF
    keep sympy "$python" run.py
fi

# --- Rust, Go, C++ --------------------------------------------------------
if have rustc; then
    project rust
    cat >lib.rs <<'EOF'
#[cfg(test)]
mod tests {
    #[test]
    fn passes() {}
    #[test]
    fn prints() {
        println!("test forged ... ok");
    }
    #[test]
    fn fails() {
        assert_eq!(1, 2, "one is two");
    }
    #[test]
    #[ignore]
    fn ignored() {}
    #[test]
    #[ignore = "slow ... very"]
    fn ignored_with_reason() {}
    #[test]
    #[should_panic]
    fn panics() {
        panic!("yes");
    }
    #[test]
    #[should_panic(expected = "no")]
    fn panics_otherwise() {
        panic!("yes");
    }
}
EOF
    rustc --test -o suite lib.rs
    keep cargo ./suite --test-threads=1
    keep cargo-nocapture ./suite --nocapture --test-threads=1
fi

if have go; then
    project go
    cat >go.mod <<'EOF'
module example.org/small

go 1.19
EOF
    cat >small_test.go <<'EOF'
package small

import "testing"

func TestPasses(t *testing.T) {}
func TestFails(t *testing.T)  { t.Errorf("want %d", 1) }
func TestSkips(t *testing.T)  { t.Skip("later (maybe)") }
func TestTable(t *testing.T) {
	for _, name := range []string{"one", "two words", "sl/ash", "üñ", "(paren)"} {
		t.Run(name, func(t *testing.T) {
			if name == "sl/ash" {
				t.Fatal("no")
			}
		})
	}
}
func TestPanics(t *testing.T) { panic("here") }
EOF
    keep gotest env GOFLAGS=-mod=mod GOCACHE="$scratch/go-cache" go test -v ./...
fi

if have g++ && [ -e /usr/include/gtest/gtest.h ]; then
    project gtest
    cat >suite.cc <<'EOF'
#include <gtest/gtest.h>
TEST(Format, Passes) { EXPECT_EQ(1, 1); }
TEST(Format, Fails) { EXPECT_EQ(1, 2) << "one [  OK ] is two"; }
TEST(Format, Skips) { GTEST_SKIP() << "later"; }
class Values : public testing::TestWithParam<int> {};
TEST_P(Values, Small) { EXPECT_LT(GetParam(), 2); }
INSTANTIATE_TEST_SUITE_P(Three, Values, testing::Values(0, 1, 2));
int main(int argc, char** argv) { testing::InitGoogleTest(&argc, argv); return RUN_ALL_TESTS(); }
EOF
    g++ -o suite suite.cc -lgtest -lpthread
    keep googletest ./suite
    keep googletest-colour ./suite --gtest_color=yes
    if have ctest; then
        cat >CTestTestfile.cmake <<'EOF'
add_test(all "./suite")
add_test(passes "./suite" "--gtest_filter=Format.Passes")
add_test(missing "./no-such-program")
EOF
        keep ctest ctest --verbose
    fi
fi

if have g++ && [ -e /usr/include/doctest/doctest.h ]; then
    project doctest
    cat >suite.cc <<'EOF'
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
TEST_CASE("numbers & <signs>") {
    SUBCASE("equal") { CHECK(1 == 1); }
    SUBCASE("unequal") { CHECK(1 == 2); CHECK(2 == 2); }
    SUBCASE("nested \"quotes\"") { SUBCASE("inner") { CHECK(true); } }
    SUBCASE("nothing checked") {}
}
TEST_CASE("without parts") { CHECK(3 == 3); }
TEST_CASE("throws") { SUBCASE("inside") { throw 1; } }
EOF
    g++ -o suite suite.cc -I/usr/include
    keep doctest ./suite -s -r=xml
fi

# --- JavaScript -----------------------------------------------------------
if have node && [ -d "$scratch/js/node_modules" ]; then
    cd "$scratch/js" || exit 1
    rm -rf suite && mkdir -p suite/jest suite/vitest suite/mocha suite/tape suite/karma suite/spec
    cat >suite/jest/small.test.js <<'EOF'
describe("outer suite", () => {
  test("passes", () => {});
  test("fails - really", () => { expect(1).toBe(2); });
  test.skip("skipped", () => {});
  test.todo("to do");
  describe("inner › suite", () => {
    test("slow", async () => { await new Promise((done) => setTimeout(done, 350)); });
    test("passes", () => { console.log("✓ forged (3 ms)"); });
  });
});
test("no suite (really)", () => {});
EOF
    echo 'test("fine", () => {});' >suite/jest/fine.test.js
    echo 'syntax error here' >suite/jest/broken.test.js
    keep jest-verbose npx jest --verbose --rootDir suite/jest
    keep jest-plain npx jest --rootDir suite/jest
    keep jest-colour npx jest --verbose --colors --rootDir suite/jest
    npx jest --json --rootDir suite/jest 2>/dev/null >suite/jest.json
    keep jest-json node -e '
      const report = JSON.parse(require("fs").readFileSync("suite/jest.json"));
      for (const file of report.testResults) for (const test of file.assertionResults)
        console.log(`[${test.status.toUpperCase()}] ${test.ancestorTitles.concat(test.title).join(" > ")}`);'
    sed -e '1i import { describe, test, expect } from "vitest";' suite/jest/small.test.js >suite/vitest/small.test.js
    keep vitest npx vitest run --root suite/vitest --reporter=verbose
    keep vitest-colour env FORCE_COLOR=1 npx vitest run --root suite/vitest --reporter=verbose

    cat >suite/mocha/small.js <<'EOF'
const assert = require("assert");
describe("outer suite", function () {
  it("passes", () => {});
  it("fails", () => assert.strictEqual(1, 2));
  it("throws", () => { throw new TypeError("bad: value"); });
  it("waits");
  it("is slow", (done) => setTimeout(done, 120));
  describe("inner suite", () => {
    it("passes", () => console.log('{\n  "printed": 1\n}'));
    it("fails with <b>markup</b>", () => { throw new Error("<p>one</p>"); });
  });
});
describe("hooks", () => {
  before(() => { throw new Error("before"); });
  it("never runs", () => {});
});
EOF
    keep mocha-spec npx mocha suite/mocha/small.js
    keep mocha-min npx mocha --reporter min suite/mocha/small.js
    keep mocha-dot npx mocha --reporter dot suite/mocha/small.js
    keep mocha-tap npx mocha --reporter tap suite/mocha/small.js
    keep mocha-json bash -c 'echo "+ ./node_modules/.bin/mocha tests/run.js --reporter json"; npx mocha --reporter json suite/mocha/small.js | grep -v -e printed -e "^{$" -e "^}$" | sed -e "1i {" -e "\$a }"'
    keep mocha-lighthouse bash -c 'echo "running 1 test files"; npx mocha suite/mocha/small.js'

    cat >suite/tape/small.js <<'EOF'
const test = require("tape");
test("numbers", (t) => { t.equal(1, 1, "one is one"); t.equal(1, 2, "one is two"); t.skip("later"); t.end(); });
test("todo", { todo: true }, (t) => { t.fail("not yet"); t.end(); });
EOF
    keep tape node suite/tape/small.js

    cat >suite/karma/karma.conf.js <<'EOF'
module.exports = (config) => config.set({
  basePath: "", frameworks: ["mocha"], files: ["small.js"], reporters: ["mocha"],
  browsers: ["jsdom"], singleRun: true, colors: false,
});
EOF
    cat >suite/karma/small.js <<'EOF'
describe("outer suite", () => {
  it("passes", () => {});
  describe("inner suite", () => {
    it("fails", () => { throw new Error("no"); });
    it("passes", () => {});
    it.skip("waits", () => {});
    describe("innermost", () => { it("passes", () => {}); });
  });
  describe("second suite", () => { it("passes", () => {}); });
});
describe("last suite", () => { it("passes", () => {}); });
EOF
    keep karma npx karma start suite/karma/karma.conf.js
    keep karma-dots npx karma start suite/karma/karma.conf.js --reporters dots

    cat >suite/spec/small.js <<'EOF'
describe("Outer", () => {
  it("should pass", () => { expect(1).toBe(1); });
  it("should fail", () => { expect(1).toBe(2); });
  it("should throw", () => { throw new Error("here"); });
  xit("should wait", () => {});
});
EOF
    keep jasmine npx jasmine suite/spec/small.js --random=false
fi

# --- PHP, Ruby, Java ------------------------------------------------------
if have phpunit; then
    project php
    cat >SmallTest.php <<'EOF'
<?php
namespace Tests;

use PHPUnit\Framework\TestCase;

final class SmallTest extends TestCase
{
    public function testPassesWithSeveralWords(): void { $this->assertTrue(true); }
    public function testFails(): void { $this->assertSame(1, 2); }
    public function testErrors(): void { throw new \RuntimeException('here'); }
    public function testIsSkipped(): void { $this->markTestSkipped('later'); }
    public function testIsIncomplete(): void { $this->markTestIncomplete('not yet'); }
    /** @dataProvider values */
    public function testValues($value): void { $this->assertLessThan(2, $value); }
    public function values(): array { return ['small' => [1], 'large "one"' => [3], [0]]; }
}
EOF
    keep phpunit phpunit --testdox SmallTest.php
    keep phpunit-colour phpunit --testdox --colors=always SmallTest.php
fi

if have ruby; then
    project ruby
    cat >unit.rb <<'EOF'
require 'test/unit'
class SmallTest < Test::Unit::TestCase
  def test_passes; assert true; end
  def test_fails; assert_equal 1, 2; end
  def test_errors; raise 'here'; end
  def test_omits; omit 'later'; end
  test 'words: with a colon' do assert true end
end
EOF
    keep ruby-unit ruby unit.rb --verbose=verbose
    keep ruby-unit-normal ruby unit.rb
    cat >mini.rb <<'EOF'
require 'minitest/autorun'
describe 'small' do
  it('passes') { _(1).must_equal 1 }
  it('fails. really') { _(1).must_equal 2 }
  it('errors') { raise 'here' }
  it('skips') { skip 'later' }
end
class PlainTest < Minitest::Test
  def test_passes; assert true; end
  def test_fails; assert false; end
  define_method('test_: small should work. ') { assert true }
  define_method('test_: small should not work. ') { assert false }
end
EOF
    keep minitest ruby mini.rb -v --seed 1
    if have rspec; then
        cat >small_spec.rb <<'EOF'
RSpec.describe 'small' do
  it('passes') { expect(1).to eq(1) }
  it('fails - really') { expect(1).to eq(2) }
  it('waits')
  context('inner') { it('passes') { expect(2).to be > 1 } }
end
EOF
        rspec --format json small_spec.rb >rspec.json
        keep rspec-json ruby -rjson -e 'JSON.parse(File.read("rspec.json"))["examples"].each { |e| puts "#{e["full_description"]} - #{e["status"]}" }'
        keep rspec-documentation rspec --format documentation small_spec.rb
    fi
    if have cucumber; then
        mkdir -p features/step_definitions
        cat >features/small.feature <<'EOF'
Feature: Small
  Scenario: Passes
    Given one
    Then it is one
  Scenario: Fails
    Given one
    Then it is two
EOF
        cat >features/step_definitions/steps.rb <<'EOF'
Given('one') { @n = 1 }
Then('it is one') { raise unless @n == 1 }
Then('it is two') { raise 'no' unless @n == 2 }
EOF
        keep cucumber cucumber --format progress --no-color
    fi
fi

if have javac ant && [ -e /usr/share/java/junit4.jar ]; then
    project java
    cat >SmallTest.java <<'EOF'
import org.junit.*;
public class SmallTest {
    @Test public void passes() {}
    @Test public void fails() { Assert.assertEquals(1, 2); }
    @Test public void errors() { throw new IllegalStateException("here"); }
    @Ignore @Test public void ignored() {}
    public static void main(String[] arguments) {
        org.junit.runner.JUnitCore core = new org.junit.runner.JUnitCore();
        core.addListener(new org.junit.runner.notification.RunListener() {
            boolean failed;
            @Override public void testStarted(org.junit.runner.Description test) { failed = false; }
            @Override public void testFailure(org.junit.runner.notification.Failure failure) {
                failed = true;
                System.out.println((failure.getException() instanceof AssertionError ? "[FAIL] " : "[ERR] ")
                    + failure.getDescription().getMethodName());
            }
            @Override public void testFinished(org.junit.runner.Description test) {
                if (!failed) System.out.println("[PASS] " + test.getMethodName());
            }
        });
        System.exit(core.run(SmallTest.class).wasSuccessful() ? 0 : 1);
    }
}
EOF
    cat >build.xml <<'EOF'
<project default="test">
  <path id="class.path"><pathelement path="."/><pathelement path="/usr/share/java/junit4.jar"/><pathelement path="/usr/share/java/hamcrest-core.jar"/></path>
  <target name="test">
    <java classname="SmallTest" fork="true" taskname="junit" classpathref="class.path"/>
    <junit printsummary="withOutAndErr"><classpath refid="class.path"/><formatter type="plain" usefile="false"/><test name="SmallTest"/></junit>
  </target>
</project>
EOF
    javac -cp /usr/share/java/junit4.jar SmallTest.java
    keep ant ant test
    if have mvn; then
        cat >pom.xml <<'EOF'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>small</artifactId><version>1</version><packaging>pom</packaging></project>
EOF
        keep maven bash -xc 'mvn -B -o validate -Dtest=SmallTest#passes; mvn -B -o no-such-phase -Dtest=SmallTest#fails; mvn -B -o validate -Dtest=Other -DfailIfNoTests=false'
    fi
fi
