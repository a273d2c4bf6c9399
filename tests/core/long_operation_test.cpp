#include "accrue/core/long_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace accrue {
namespace {

using ::testing::ElementsAre;

/// What is shown, a word for each call.
class Shown {
 public:
  ShowProgress show = [this](const OperationProgress& progress) {
    switch (progress.stage) {
      case OperationProgress::Stage::begun:
        calls.push_back("begin " + progress.name);
        break;
      case OperationProgress::Stage::under_way:
        calls.push_back(progress.name + " " + progress.part + std::to_string(progress.done) + "/" +
                        std::to_string(progress.all));
        break;
      case OperationProgress::Stage::ended:
        calls.push_back("end " + progress.name);
        break;
    }
  };
  std::vector<std::string> calls;
};

TEST(LongOperation, IsShownFromItsBeginningToItsEnd) {
  Shown shown;
  {
    LongOperation loading(shown.show, "load");
    loading.count(1, 2);
    loading.begin_part("b");
  }
  EXPECT_THAT(shown.calls, ElementsAre("begin load", "load 1/2", "load b1/2", "end load"));
}

TEST(LongOperation, EndsWithAnExceptionToo) {
  Shown shown;
  EXPECT_THROW(
      during(shown.show, "load", []() -> int { throw std::runtime_error("a damaged file"); }),
      std::runtime_error);
  EXPECT_THAT(shown.calls, ElementsAre("begin load", "end load"));
}

TEST(LongOperation, IsShownToNobodyByNothing) {
  LongOperation loading({}, "load");
  loading.count(1, 2);
  EXPECT_EQ(during({}, "load", [] { return 7; }), 7);
  EXPECT_FALSE(counted_operation({}, {.name = "load"}));
  staged_operation({})("load");
}

TEST(CountedOperation, BeginsWithTheFirstReportAndEndsWhenAllIsDone) {
  Shown shown;
  const auto tell = counted_operation(shown.show, {.name = "read"});
  EXPECT_THAT(shown.calls, ElementsAre());
  tell(1, 2);
  tell(2, 2);
  tell(5, 5);
  EXPECT_THAT(shown.calls, ElementsAre("begin read", "read 1/2", "read 2/2", "end read",
                                       "begin read", "read 5/5", "end read"));
}

TEST(CountedOperation, EndsWithItsFunctionIfNotAllWasDone) {
  Shown shown;
  { counted_operation(shown.show, {.name = "read"})(1, 2); }
  EXPECT_THAT(shown.calls, ElementsAre("begin read", "read 1/2", "end read"));
}

TEST(StagedOperation, OneStageEndsBeforeTheNextBegins) {
  Shown shown;
  {
    const auto tell = staged_operation(shown.show);
    tell("a");
    tell("b");
  }
  EXPECT_THAT(shown.calls, ElementsAre("begin a", "end a", "begin b", "end b"));
}

}  // namespace
}  // namespace accrue
