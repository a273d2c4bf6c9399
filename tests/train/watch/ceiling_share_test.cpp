#include "train/watch/ceiling_share.h"

#include <gmock/gmock.h>

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t room_enough = std::int64_t{1} << 30;
constexpr CeilingShare::Model model_of_test{.flops_per_sample = 1'000'000};

class CeilingShareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("accrue_share_") + test->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  CeilingCache cache() const { return CeilingCache(folder_ / "ceilings.json"); }
  void know(double flops_per_second) const {
    cache().keep(ceiling_key(models::Compute::fp32), flops_per_second);
  }

  fs::path folder_;
};

TEST_F(CeilingShareTest, IsTheModelsArithmeticOverTheCeiling) {
  know(1e9);
  CeilingShare share(model_of_test, cache());
  EXPECT_DOUBLE_EQ(*share.of(50, 0.1), 0.5) << "5e7 operations in a tenth of a second";
  EXPECT_EQ(share.of(500, 0.1), 1) << "who is faster has shown a higher ceiling";
  EXPECT_FALSE(share.of(0, 0.1)) << "a rank without samples";
  EXPECT_FALSE(share.of(50, 0));
}

TEST_F(CeilingShareTest, IsAbsentOfAModelThatDoesNotTell) {
  know(1e9);
  CeilingShare share({}, cache(), /*patience=*/0);
  EXPECT_FALSE(share.of(50, 0.1));
  EXPECT_FALSE(share.measure_if_due(room_enough));
}

TEST_F(CeilingShareTest, MeasuresOnceWhatIsNotKnown) {
  CeilingShare share(model_of_test, cache(), /*patience=*/0);
  EXPECT_FALSE(share.of(50, 0.1));
  const auto told = share.measure_if_due(room_enough);
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, AllOf(HasSubstr("GFLOP/s"), HasSubstr("in fp32"),
                           HasSubstr((folder_ / "ceilings.json").string())));
  EXPECT_TRUE(share.of(50, 0.1));
  EXPECT_FALSE(share.measure_if_due(room_enough));
  CeilingShare later(model_of_test, cache(), /*patience=*/0);
  EXPECT_EQ(later.of(1, 1), share.of(1, 1));
  EXPECT_FALSE(later.measure_if_due(room_enough)) << "it is known";
}

/// A ceiling is too low if it was measured while another program ran.
TEST_F(CeilingShareTest, MeasuresAgainWhatTrainingExceeds) {
  know(1e6);
  CeilingShare share(model_of_test, cache(), /*patience=*/0);
  EXPECT_DOUBLE_EQ(*share.of(1, 2), 0.5);
  EXPECT_FALSE(share.measure_if_due(room_enough));
  EXPECT_EQ(share.of(2, 1), 1);
  EXPECT_TRUE(share.measure_if_due(room_enough));
  EXPECT_LT(*share.of(2, 1), 0.5) << "any machine does more than two million operations a second";
  EXPECT_EQ(CeilingShare(model_of_test, cache()).of(2, 1), share.of(2, 1)) << "and it is kept";
}

TEST_F(CeilingShareTest, DoesNotDelayAShortRunOrTakeMemoryThatIsNotThere) {
  CeilingShare early(model_of_test, cache());
  EXPECT_FALSE(early.measure_if_due(room_enough));
  CeilingShare cramped(model_of_test, cache(), /*patience=*/0);
  EXPECT_FALSE(cramped.measure_if_due(1 << 10));
  EXPECT_FALSE(cramped.measure_if_due(room_enough)) << "it is not tried again and again";
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace accrue::train
