// What `accrue init` writes is proved as it is.
#include <gmock/gmock.h>

#include "configs_to_verify.h"
#include "train/workload/first/data_facts.h"
#include "train/workload/first/first_config.h"

namespace accrue::proof {
namespace {

class FirstConfigProof : public testing::ConfigsToVerify {
 protected:
  /// The config of a small text on a machine that has instructions for bf16, or none. The model has
  /// one layer of the chosen four, which all are alike, and no budget: no allocator counts here.
  train::Config chosen(bool multiplies_bf16) const {
    const std::string file = (folder_ / "tale.txt").string();
    std::ofstream text(file);
    for (int i = 0; i < 100; ++i) text << "line " << i * 7919 % 1000 << " of a small text\n";
    text.close();
    const std::string page =
        train::first_config(train::inspect_data(train::sort_out({file})),
                            {.multiplies_bf16 = multiplies_bf16}, {.command = "accrue init"});
    return train::parse_config(page, "accrue.toml",
                               {"model.layers=1", "run.threads=2", "memory.budget=none",
                                "run.out=" + (folder_ / "run").string()});
  }
};

TEST_F(FirstConfigProof, IsConclusiveInEitherPrecision) {
  for (const bool multiplies_bf16 : {false, true}) {
    const train::Config config = chosen(multiplies_bf16);
    EXPECT_EQ(config.precision.compute,
              multiplies_bf16 ? models::Compute::bf16 : models::Compute::fp32);
    const Report report = verify_config(config);
    EXPECT_TRUE(report.conclusive) << report.inconclusive;
    EXPECT_EQ(report.inconclusive, "");
    EXPECT_THAT(conclusion(report), ::testing::StartsWith("Equal: "));
  }
}

}  // namespace
}  // namespace accrue::proof
