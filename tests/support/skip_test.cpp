#include "support/skip.h"

#include <gtest/gtest-spi.h>

#include <string>
#include <utility>

namespace accrue::testing {
namespace {

/// Sets the value of an environment variable while it exists.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Setting() { ::setenv(name_, before_.c_str(), 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// The report of `skip`, without skipping or failing this test.
template <class Skip>
::testing::TestPartResult::Type outcome_of(Skip skip) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    skip("oneDNN");
  }
  if (results.size() != 1) ADD_FAILURE() << results.size() << " results";
  const ::testing::TestPartResult& result = results.GetTestPartResult(0);
  EXPECT_NE(std::string(result.message()).find("oneDNN"), std::string::npos) << result.message();
  return result.type();
}

TEST(Skip, FailsOnlyForWhatCouldBeThereWhereEverythingIsRequired) {
  using Type = ::testing::TestPartResult;
  for (const auto& [value, expected] :
       {std::pair{"", Type::kSkip}, std::pair{"1", Type::kFatalFailure}}) {
    const Setting required(require_all_variable, value);
    EXPECT_EQ(outcome_of(missing_in_build), expected);
    EXPECT_EQ(outcome_of(not_possible_here), Type::kSkip);
  }
}

}  // namespace
}  // namespace accrue::testing
