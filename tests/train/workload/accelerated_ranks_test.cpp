// Decisions of ranks, as threads of this process, about a model that is not accrue's own.
#include <gmock/gmock.h>

#include "train/foreign_net.h"
#include "train/run/settle_acceleration.h"
#include "train/thread_ranks.h"

namespace accrue::train {
namespace {

using testing::FaultyNetImpl;
using testing::ForeignNetImpl;
using ::testing::HasSubstr;
using testing::SharedNet;

class AcceleratedRanks : public testing::ForeignRun {
 protected:
  /// The decisions of ranks with these nets, by rank.
  std::vector<Acceleration> decisions(const std::vector<SharedNet>& nets) const {
    std::vector<Workload> works;
    for (const SharedNet& net : nets)
      works.push_back(open_workload(with_custom(
          foreign_config(2, 3),
          {.model = [net](const Config&) { return trainable(net, testing::foreign_loss); },
           .train = testing::foreign_data()})));
    testing::run_thread_ranks(nets.size(), [&](std::size_t rank, const auto& group) {
      settle_acceleration(works[rank], Ranks(group), std::nullopt);
      group->barrier("the end");
    });
    std::vector<Acceleration> found;
    for (const Workload& work : works) found.push_back(work.acceleration.value_or(Acceleration{}));
    return found;
  }
};

TEST_F(AcceleratedRanks, AreAcceleratedWhereAllAgree) {
  for (const Acceleration& decision :
       decisions({std::make_shared<ForeignNetImpl>(), std::make_shared<ForeignNetImpl>()})) {
    EXPECT_TRUE(decision.on);
    EXPECT_THAT(decision.reason, HasSubstr("accrue does 2 products"));
  }
}

TEST_F(AcceleratedRanks, AreAllAcceleratedOrNone) {
  const std::vector<Acceleration> found =
      decisions({std::make_shared<ForeignNetImpl>(), std::make_shared<FaultyNetImpl>()});
  EXPECT_FALSE(found[0].on);
  EXPECT_THAT(found[0].reason, HasSubstr("the model's operations are libtorch's, as on another"));
  EXPECT_FALSE(found[1].on);
  EXPECT_THAT(found[1].reason, HasSubstr("the gradient of first.weight differs"));
}

}  // namespace
}  // namespace accrue::train
