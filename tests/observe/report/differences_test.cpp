#include "observe/report/differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(Differences, AreTheKeysWhoseValuesAreNotTheSame) {
  const auto found = differences(
      {{{"optim.lr", "0.1"}, {"run.seed", "1"}}, {{"optim.lr", "0.2"}, {"run.seed", "1"}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "optim.lr");
  EXPECT_THAT(found[0].values,
              ElementsAre(Optional(std::string("0.1")), Optional(std::string("0.2"))));
}

TEST(Differences, AKeyThatARunDoesNotHaveIsOne) {
  const auto found = differences({{{"lora.rank", "8"}}, {}, {{"lora.rank", "8"}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].values,
              ElementsAre(Optional(std::string("8")), std::nullopt, Optional(std::string("8"))));
}

TEST(Differences, OneRunDiffersInNothing) {
  EXPECT_THAT(differences({{{"a", "1"}}}), IsEmpty());
  EXPECT_THAT(differences({}), IsEmpty());
}

}  // namespace
}  // namespace accrue::observe
