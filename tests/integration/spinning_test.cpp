// How the program's threads wait for each other.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <map>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Sets the variables that control waiting while it exists.
class Waiting {
 public:
  explicit Waiting(const std::map<std::string, std::string>& variables) {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
      const char* const before = ::getenv(name);
      if (before != nullptr) before_[name] = before;
      ::unsetenv(name);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("OMP_DISPLAY_ENV", "verbose", 1);
  }
  ~Waiting() {
    ::unsetenv("OMP_DISPLAY_ENV");
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::map<std::string, std::string> before_;
};

class Spinning : public AccrueProgram {
 protected:
  /// The settings that libgomp reports.
  std::string settings(const std::map<std::string, std::string>& variables) const {
    const Waiting waiting(variables);
    return accrue({"--version"}).errors;
  }
};

TEST_F(Spinning, IsBoundedUnlessTheUserSaysOtherwise) {
  EXPECT_THAT(settings({}), HasSubstr("GOMP_SPINCOUNT = '1000'"));
  EXPECT_THAT(settings({{"GOMP_SPINCOUNT", "77"}}), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(settings({{"OMP_WAIT_POLICY", "active"}}),
              ::testing::AllOf(HasSubstr("OMP_WAIT_POLICY = 'ACTIVE'"), Not(HasSubstr("'1000'"))));
}

TEST_F(Spinning, LeavesArgumentsAndStatusAlone) {
  const Waiting waiting({});
  EXPECT_EQ(accrue({"train", "there is no.toml"}).status, 2);
  EXPECT_THAT(accrue({"train", "there is no.toml"}).errors, HasSubstr("there is no.toml"));
}

}  // namespace
}  // namespace accrue::testing
