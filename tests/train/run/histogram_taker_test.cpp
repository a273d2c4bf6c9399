#include "train/run/histogram_taker.h"

#include <gmock/gmock.h>

#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HistogramRecorder : public testing::Recorder {
 public:
  void on_histograms(const StepHistograms& taken) override { histograms.push_back(taken); }
  std::vector<StepHistograms> histograms;
};

class HistogramsOfARun : public testing::TinyRun {
 protected:
  static std::shared_ptr<HistogramRecorder> train(Config c) {
    auto recorder = std::make_shared<HistogramRecorder>();
    Trainer trainer(std::move(c));
    trainer.add_observer(recorder);
    trainer.run();
    return recorder;
  }
  static std::vector<std::string> names_of(const std::vector<NamedHistogram>& histograms) {
    std::vector<std::string> names;
    for (const NamedHistogram& histogram : histograms) names.push_back(histogram.name);
    return names;
  }
  Config every_two_steps() const {
    Config c = config();
    c.observe.histograms = Duration{2, Duration::Unit::steps};
    return c;
  }
};

TEST_F(HistogramsOfARun, ComeAsOftenAsTheConfigSays) {
  const auto told = train(every_two_steps());
  ASSERT_THAT(told->histograms, SizeIs(3));
  for (std::size_t i = 0; i < 3; ++i) {
    const StepHistograms& taken = told->histograms[i];
    EXPECT_EQ(taken.step, static_cast<std::int64_t>(2 * (i + 1)));
    EXPECT_GT(taken.weights.size(), 10u);
    EXPECT_EQ(names_of(taken.gradients), names_of(taken.weights));
    for (const NamedHistogram& of : taken.weights) EXPECT_GT(of.values.count, 0) << of.name;
  }
  EXPECT_FALSE(told->has_event("histograms"));
}

TEST_F(HistogramsOfARun, AreOfTheWeightsAfterTheStep) {
  const Config c = every_two_steps();
  const auto told = train(c);
  const NamedParameters weights = parameters_of(c);
  for (const NamedHistogram& of : told->histograms.back().weights) {
    const auto weight = std::ranges::find(weights, of.name, &NamedParameter::name);
    ASSERT_NE(weight, weights.end()) << of.name;
    EXPECT_EQ(of.values.count, weight->tensor.numel()) << of.name;
    EXPECT_EQ(of.values.most, weight->tensor.max().item<double>()) << of.name;
    EXPECT_EQ(of.values.least, weight->tensor.min().item<double>()) << of.name;
  }
}

TEST_F(HistogramsOfARun, AreOfGradientsBeforeTheyAreClipped) {
  Config c = every_two_steps();
  c.optim.clip = 1e-6;
  const auto told = train(c);
  double squares = 0;
  for (const NamedHistogram& of : told->histograms.front().gradients)
    squares += of.values.sum_of_squares;
  EXPECT_NEAR(std::sqrt(squares), *told->steps[1].grad_norm, 1e-9 * *told->steps[1].grad_norm);
  EXPECT_GT(std::sqrt(squares), 1e-3);
}

TEST_F(HistogramsOfARun, AreOfWeightsAloneWhereGradientsAreFoldedWhichIsSaidOnce) {
  Config c = every_two_steps();
  c.optim.kind = OptimizerKind::adama;
  c.optim.clip = 0;
  const auto told = train(c);
  ASSERT_THAT(told->histograms, SizeIs(3));
  EXPECT_THAT(told->histograms.front().gradients, IsEmpty());
  EXPECT_GT(told->histograms.front().weights.size(), 10u);
  EXPECT_EQ(std::ranges::count(told->events, "histograms", &Event::name), 1);
}

TEST_F(HistogramsOfARun, AreNotTakenUnlessAskedFor) {
  EXPECT_THAT(train(config())->histograms, IsEmpty());
}

TEST(HistogramRemark, SaysWhyGradientsAreMissing) {
  Config config;
  EXPECT_EQ(histogram_remark(config, {.rank = 0, .world = 2}), "");
  config.observe.histograms = Duration{1, Duration::Unit::steps};
  EXPECT_EQ(histogram_remark(config, {}), "");
  EXPECT_THAT(histogram_remark(config, {.rank = 0, .world = 2}), HasSubstr("weights alone"));
}

}  // namespace
}  // namespace accrue::train
