// Runs on sources with weights.
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/tolerance.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::Recorder;
using testing::SignalAfter;

class MixtureRun : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    std::ofstream lines(folder_ / "lines.jsonl");
    for (int i = 0; i < 60; ++i)
      lines << json{{"prompt", "q"}, {"completion", std::string(1 + i % 13, 'a')}} << "\n";
    for (const char* name : {"first", "second"}) {
      std::ofstream pairs(folder_ / (name + std::string(".pairs.jsonl")));
      for (int i = 0; i < 20; ++i)
        pairs << json{{"prompt", name},
                      {"chosen", std::string(1 + i % 5, 'y')},
                      {"rejected", std::string(1 + i % 3, 'n')}}
              << "\n";
    }
  }

  Config mixture(const std::string& out) const {
    Config c = config(out);
    c.data.train = {(folder_ / "text.txt").string(), (folder_ / "lines.jsonl").string()};
    c.data.weights = {1, 3};
    c.batch = {.samples = 8, .micro = 2};
    return c;
  }
  Config pairs(const std::string& out) const {
    Config c = config(out);
    c.loss.kind = models::LossKind::dpo;
    c.data.train = {(folder_ / "first.pairs.jsonl").string(),
                    (folder_ / "second.pairs.jsonl").string()};
    c.data.weights = {3, 1};
    c.batch = {.samples = 8, .micro = 3};
    return c;
  }

  static std::vector<double> losses_of(const Config& c) {
    Trainer trainer(c);
    const auto recorder = std::make_shared<Recorder>();
    trainer.add_observer(recorder);
    trainer.run();
    std::vector<double> losses;
    for (const StepReport& step : recorder->steps) losses.push_back(step.loss.value());
    return losses;
  }
};

TEST_F(MixtureRun, ResumesToTheBitInTheMiddleOfAWindow) {
  Config straight = mixture("straight");
  straight.model.dropout = 0.1;
  Trainer(straight).run();
  for (const int micro_batches : {1, 10, 14}) {
    Config broken = straight;
    broken.run.out = (folder_ / ("broken" + std::to_string(micro_batches))).string();
    Trainer first(broken);
    first.add_observer(std::make_shared<SignalAfter>(micro_batches, SIGINT));
    EXPECT_TRUE(first.run().interrupted);
    EXPECT_EQ(Trainer(broken).run({.resume = true}).step, 6);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(MixtureRun, IsNotResumedWithOtherWeights) {
  Config c = mixture("run");
  Trainer(c).run();
  c.data.weights = {1, 2};
  c.run.steps = 8;
  EXPECT_THAT(usage_message([&] { Trainer(c).run({.resume = true}); }), HasSubstr("data.train"));
}

TEST_F(MixtureRun, DrawsByWeightAndHoldsOutOfEachSource) {
  const Workload work = open_workload(mixture("run"));
  const auto train = work.data.train->parts(), val = work.data.val->parts();
  ASSERT_EQ(train.size(), 2);
  ASSERT_EQ(val.size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto all = static_cast<double>(train[i].source->size() + val[i].source->size());
    EXPECT_NEAR(static_cast<double>(val[i].source->size()), 0.05 * all, 1);
  }
  EXPECT_EQ(make_sampler(work.config, *work.data.train).draws_of(1, 400), 300);
}

TEST_F(MixtureRun, LearnsThePackedAsTheUnpacked) {
  Config plain = mixture("plain"), packed = mixture("packed"), other = mixture("other");
  packed.data.packing = true;
  other.data.weights = {3, 1};
  for (Config* c : {&plain, &packed, &other}) c->run.steps = 1;
  const double expected = losses_of(plain).at(0);
  const double bound = accrue::testing::tolerance(at::kFloat).bound(8 * 16) * expected;
  EXPECT_NEAR(losses_of(packed).at(0), expected, bound);
  EXPECT_GT(std::abs(losses_of(other).at(0) - expected), bound) << "the comparison sees samples";
}

// Before the first step a model is its own reference, so each pair's loss is ln 2 if both sequences
// and their reference belong together.
TEST_F(MixtureRun, OfPairsHasTheReferenceOfEach) {
  for (const bool packing : {false, true}) {
    Config c = pairs(packing ? "packed" : "plain");
    c.data.packing = packing;
    const std::vector<double> losses = losses_of(c);
    EXPECT_NEAR(losses.front(), std::log(2), accrue::testing::tolerance(at::kFloat).bound(8 * 16));
    EXPECT_LT(losses.back(), losses.front());
    const Workload work = open_workload(c);
    EXPECT_EQ(make_sampler(work.config, *work.data.train).draws_of(0, 40), 30);
  }
}

}  // namespace
}  // namespace accrue::train
