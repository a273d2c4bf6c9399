// Models that are not accrue's own, trained by ranks, which are threads of this process.
#include <gmock/gmock.h>

#include <thread>

#include "accrue/distributed/group.h"
#include "distributed/ranks.h"
#include "train/foreign_net.h"
#include "train/recorder.h"

namespace accrue::train {
namespace {

using testing::FaultyNetImpl;
using testing::ForeignNetImpl;
using ::testing::HasSubstr;
using testing::SharedNet;

class AcceleratedRanks : public testing::ForeignRun {
 protected:
  /// Trains the nets, a rank each, and returns what the first said of the decision.
  static std::string train(const Config& c, const std::vector<SharedNet>& nets) {
    std::filesystem::remove_all(c.run.out);
    std::string told = "nothing";
    const std::uint16_t port = accrue::testing::free_port();
    const auto run_rank = [&](std::size_t rank) {
      const auto group = distributed::connect({.rank = static_cast<int>(rank),
                                               .world = static_cast<int>(nets.size()),
                                               .master_addr = "127.0.0.1",
                                               .master_port = port},
                                              {.timeout = std::chrono::seconds(120)});
      const auto recorder = std::make_shared<testing::Recorder>();
      Trainer trainer(with_custom(c, {.model =
                                          [net = nets[rank]](const Config&) {
                                            return trainable(net, testing::foreign_loss);
                                          },
                                      .train = testing::foreign_data()}),
                      group);
      trainer.add_observer(recorder);
      trainer.run();
      for (const Event& event : recorder->events)
        if (event.name == "accelerate") told = event.reason;
    };
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < nets.size(); ++rank) threads.emplace_back(run_rank, rank);
    threads.clear();
    return told;
  }
};

TEST_F(AcceleratedRanks, TrainAsOneProcessDoes) {
  const SharedNet alone = std::make_shared<ForeignNetImpl>();
  EXPECT_THAT(train(foreign_config(4, 3, "alone"), {alone}), HasSubstr("accrue does 2 products"));
  const std::vector<SharedNet> nets{std::make_shared<ForeignNetImpl>(),
                                    std::make_shared<ForeignNetImpl>()};
  EXPECT_THAT(train(foreign_config(4, 3, "ranks"), nets), HasSubstr("accrue does 2 products"));
  EXPECT_LT(largest_difference(nets[0], alone), 1e-12) << "dropout included";
  EXPECT_EQ(largest_difference(nets[0], nets[1]), 0);
}

TEST_F(AcceleratedRanks, AreAllAcceleratedOrNone) {
  const std::vector<SharedNet> nets{std::make_shared<ForeignNetImpl>(),
                                    std::make_shared<FaultyNetImpl>()};
  EXPECT_THAT(train(foreign_config(2, 3), nets),
              HasSubstr("the model's operations are libtorch's, as on another rank"));
}

}  // namespace
}  // namespace accrue::train
