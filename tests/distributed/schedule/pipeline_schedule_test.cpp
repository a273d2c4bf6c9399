#include "distributed/schedule/pipeline_schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::usage_message;
using ::testing::HasSubstr;
using enum PipelinePass::Direction;

constexpr double kForwardSeconds = 1, kBackwardSeconds = 2;

std::string in_words(const std::vector<PipelinePass>& passes) {
  std::string text;
  for (const PipelinePass& pass : passes)
    text += (pass.direction == forward ? "F" : "B") + std::to_string(pass.micro_batch) + " ";
  return text;
}

TEST(PipelineSchedule, IsOneForwardOneBackward) {
  // Narayanan et al., figure 4, with 4 stages and 8 micro-batches; the paper counts from 1.
  EXPECT_EQ(in_words(pipeline_schedule(0, 4, 8)),
            "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
  EXPECT_EQ(in_words(pipeline_schedule(3, 4, 8)),
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ");
  EXPECT_EQ(in_words(pipeline_schedule(0, 4, 2)), "F0 F1 B0 B1 ");
}

/// Stages that run their lists. Between two adjacent stages, in each direction, `capacity`
/// messages may be sent that the receiver has not requested yet; a stage whose message finds no
/// room waits.
class Pipeline {
 public:
  Pipeline(std::int64_t stages, std::int64_t micro_batches, std::int64_t capacity)
      : stages_(stages),
        capacity_(capacity),
        activations_(static_cast<std::size_t>(stages + 1)),
        gradients_(static_cast<std::size_t>(stages + 1)) {
    for (std::int64_t stage = 0; stage < stages; ++stage)
      stage_.push_back({pipeline_schedule(stage, stages, micro_batches)});
    for (std::int64_t i = 0; i < micro_batches; ++i) activations_.front().waiting.push_back({i, 0});
  }

  /// When the last stage is done; none if they wait for each other for ever.
  std::optional<double> seconds() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::int64_t stage = 0; stage < stages_; ++stage)
        while (advance(stage)) moved = true;
    }
    double last = 0;
    for (const Stage& stage : stage_) {
      if (stage.next < stage.passes.size() || stage.unsent) return {};
      last = std::max(last, stage.time);
    }
    return last;
  }
  std::int64_t most_kept(std::int64_t stage) const { return at(stage).most_kept; }

 private:
  struct Message {
    std::int64_t micro_batch;
    double time;
  };
  /// Messages in order. A receiver "asks" before it may be given one that has no room to wait.
  struct Link {
    std::vector<Message> waiting;
    bool asked = false;
  };
  struct Stage {
    std::vector<PipelinePass> passes;
    std::size_t next = 0;
    double time = 0;
    std::int64_t kept = 0, most_kept = 0;
    std::optional<Message> unsent = {};
    Link* unsent_link = nullptr;
  };

  Stage& at(std::int64_t stage) { return stage_[static_cast<std::size_t>(stage)]; }
  const Stage& at(std::int64_t stage) const { return stage_[static_cast<std::size_t>(stage)]; }

  bool deliver(Stage& stage) {
    Link& link = *stage.unsent_link;
    const bool has_room = static_cast<std::int64_t>(link.waiting.size()) < capacity_ || link.asked;
    if (!has_room) return false;
    link.asked = false;
    link.waiting.push_back(*stage.unsent);
    stage.unsent.reset();
    return true;
  }

  bool advance(std::int64_t index) {
    Stage& stage = at(index);
    if (stage.unsent) return deliver(stage);
    if (stage.next == stage.passes.size()) return false;
    const PipelinePass pass = stage.passes[stage.next];
    if (!receive(index, pass)) return false;
    run(index, pass);
    ++stage.next;
    return true;
  }

  /// The gradient of the last stage's output is its own.
  bool receive(std::int64_t index, const PipelinePass& pass) {
    if (pass.direction == backward && index == stages_ - 1) return true;
    Link& link = pass.direction == forward ? activations_[static_cast<std::size_t>(index)]
                                           : gradients_[static_cast<std::size_t>(index + 1)];
    if (link.waiting.empty()) {
      link.asked = true;
      return false;
    }
    EXPECT_EQ(link.waiting.front().micro_batch, pass.micro_batch) << "messages come in order";
    at(index).time = std::max(at(index).time, link.waiting.front().time);
    link.waiting.erase(link.waiting.begin());
    return true;
  }

  void run(std::int64_t index, const PipelinePass& pass) {
    Stage& stage = at(index);
    const bool is_forward = pass.direction == forward;
    stage.time += is_forward ? kForwardSeconds : kBackwardSeconds;
    stage.kept += is_forward ? 1 : -1;
    EXPECT_GE(stage.kept, 0) << "backward before forward";
    stage.most_kept = std::max(stage.most_kept, stage.kept);
    if (is_forward ? index + 1 == stages_ : index == 0) return;
    stage.unsent = Message{pass.micro_batch, stage.time};
    stage.unsent_link = is_forward ? &activations_[static_cast<std::size_t>(index + 1)]
                                   : &gradients_[static_cast<std::size_t>(index)];
  }

  std::int64_t stages_, capacity_;
  std::vector<Stage> stage_;
  std::vector<Link> activations_;  ///< [s]: to stage s
  std::vector<Link> gradients_;    ///< [s]: to stage s - 1
};

TEST(PipelineSchedule, RunsEveryPassOnceWithinTheTimeOfTheFormula) {
  for (std::int64_t stages = 1; stages <= 6; ++stages)
    for (std::int64_t micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(micro_batches));
      Pipeline pipeline(stages, micro_batches, 1);
      const std::optional<double> seconds = pipeline.seconds();
      ASSERT_TRUE(seconds) << "a deadlock";
      const double busy = static_cast<double>(micro_batches) * (kForwardSeconds + kBackwardSeconds);
      EXPECT_NEAR(1 - busy / *seconds, bubble_fraction(stages, micro_batches), 1e-12);
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(pipeline.most_kept(stage), most_in_flight(stage, stages, micro_batches));
        EXPECT_EQ(pipeline_schedule(stage, stages, micro_batches).size(),
                  static_cast<std::size_t>(2 * micro_batches));
      }
    }
}

TEST(PipelineSchedule, LocksUpWhereASendWaitsForItsReceiver) {
  EXPECT_FALSE(Pipeline(2, 2, 0).seconds());
  EXPECT_TRUE(Pipeline(2, 1, 0).seconds()) << "the executor itself can run without room";
}

TEST(PipelineSchedule, BackwardPassesComeInOrder) {
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    std::vector<std::int64_t> order;
    for (const PipelinePass& pass : pipeline_schedule(stage, 4, 7))
      if (pass.direction == backward) order.push_back(pass.micro_batch);
    EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
}

/// The slowest part of the best division, by trying all.
double best_slowest(std::span<const double> costs, std::int64_t stages) {
  if (stages == 1) return std::accumulate(costs.begin(), costs.end(), 0.0);
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t last = costs.size() - 1; last >= static_cast<std::size_t>(stages) - 1; --last)
    best = std::min(best, std::max(best_slowest(costs.first(last), stages - 1),
                                   best_slowest(costs.subspan(last), 1)));
  return best;
}

TEST(BalancedCuts, MakeTheSlowestStageAsFastAsAnyDivisionDoes) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> costs(1 + random() % 9);
    for (double& cost : costs) cost = static_cast<double>(random() % 8);
    const auto stages = static_cast<std::int64_t>(1 + random() % costs.size());
    const std::vector<std::size_t> cuts = balanced_cuts(costs, stages);
    ASSERT_EQ(cuts.size(), static_cast<std::size_t>(stages) + 1);
    EXPECT_EQ(cuts.front(), 0U);
    EXPECT_EQ(cuts.back(), costs.size());
    double slowest = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      ASSERT_LT(cuts[i], cuts[i + 1]);
      slowest =
          std::max(slowest, std::accumulate(costs.begin() + static_cast<int>(cuts[i]),
                                            costs.begin() + static_cast<int>(cuts[i + 1]), 0.0));
    }
    EXPECT_EQ(slowest, best_slowest(costs, stages));
  }
}

TEST(BalancedCuts, ANeedlesslySlowDivisionWouldBeNoticed) {
  const std::vector<double> costs{1, 1, 1, 3};
  EXPECT_EQ(best_slowest(costs, 2), 3);
  EXPECT_THAT(balanced_cuts(costs, 2), ::testing::ElementsAre(0, 3, 4));
}

TEST(BalancedCuts, RefuseMoreStagesThanBlocks) {
  const std::vector<double> costs{1, 1};
  EXPECT_THAT(usage_message([&] { balanced_cuts(costs, 3); }), HasSubstr("blocks (2)"));
  EXPECT_THAT(usage_message([&] { balanced_cuts(costs, 0); }), HasSubstr("received 0"));
}

TEST(PipelineSchedule, RefusesWhatIsNoStage) {
  EXPECT_THAT(usage_message([] { pipeline_schedule(2, 2, 1); }), HasSubstr("a stage below 2"));
  EXPECT_THAT(usage_message([] { pipeline_schedule(-1, 2, 1); }), HasSubstr("received -1"));
  EXPECT_THAT(usage_message([] { pipeline_schedule(0, 2, 0); }), HasSubstr("one micro-batch"));
}

}  // namespace
}  // namespace accrue::distributed
