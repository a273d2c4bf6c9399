// What ranks, which are threads of this process, decide about a model that is not accrue's own.
#include <gmock/gmock.h>

#include <thread>

#include "distributed/ranks.h"
#include "train/foreign_net.h"
#include "train/run/settle_acceleration.h"

namespace accrue::train {
namespace {

using testing::FaultyNetImpl;
using testing::ForeignNetImpl;
using ::testing::HasSubstr;
using testing::SharedNet;

class AcceleratedRanks : public testing::ForeignRun {
 protected:
  /// The decisions of ranks that have these nets, by rank.
  std::vector<Acceleration> decisions(const std::vector<SharedNet>& nets) const {
    std::vector<Workload> works;
    for (const SharedNet& net : nets)
      works.push_back(open_workload(with_custom(
          foreign_config(2, 3),
          {.model = [net](const Config&) { return trainable(net, testing::foreign_loss); },
           .train = testing::foreign_data()})));
    const std::uint16_t port = accrue::testing::free_port();
    const auto decide = [&](std::size_t rank) {
      const auto group = distributed::connect({.rank = static_cast<int>(rank),
                                               .world = static_cast<int>(nets.size()),
                                               .master_addr = "127.0.0.1",
                                               .master_port = port},
                                              {.timeout = std::chrono::seconds(120)});
      settle_acceleration(works[rank], Ranks(group), std::nullopt);
      group->barrier("the end");
    };
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < nets.size(); ++rank) threads.emplace_back(decide, rank);
    threads.clear();
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
