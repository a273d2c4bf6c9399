#include "distributed/group/handshake.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace accrue::distributed {
namespace {

TEST(Handshake, NamesWhatDiffersWithBothValuesAndRanks) {
  const Facts first{{"version", "1"}, {"optim.lr", "0.1"}, {"data", "a"}};
  const Facts other{{"version", "1"}, {"optim.lr", "0.2"}, {"data", "a"}};
  EXPECT_EQ(differing_facts({first, first}), "");
  EXPECT_EQ(differing_facts({first, first, other, other}),
            "optim.lr: '0.1' on rank 0, '0.2' on rank 2, '0.2' on rank 3");
}

TEST(Handshake, AFactThatIsMissingDiffers) {
  EXPECT_EQ(differing_facts({{{"a", "1"}}, {{"b", "2"}}}),
            "a: '1' on rank 0, nothing on rank 1; b: nothing on rank 0, '2' on rank 1");
}

TEST(Handshake, DigestsFollowShapesAndValues) {
  const at::Tensor values = at::arange(6, at::dtype(at::kFloat));
  const NamedParameters parameters{{"a", values.view({2, 3})}};
  const NamedParameters reshaped{{"a", values.view({3, 2})}}, renamed{{"b", values.view({2, 3})}};
  EXPECT_NE(shape_digest(parameters), shape_digest(reshaped));
  EXPECT_NE(shape_digest(parameters), shape_digest(renamed));
  EXPECT_EQ(value_digest(parameters), value_digest(reshaped));
  const NamedParameters moved{{"a", (values + 0x1p-20).view({2, 3})}};
  EXPECT_EQ(shape_digest(parameters), shape_digest(moved));
  EXPECT_NE(value_digest(parameters), value_digest(moved));
}

}  // namespace
}  // namespace accrue::distributed
