// Layered windows: the sums of a window that runs micro-batch by micro-batch, and its failures.
#include "train/window/layered/layered_runner.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <csignal>
#include <new>

#include "accrue/models/llama.h"
#include "accrue/models/resnet.h"
#include "accrue/models/vit.h"
#include "memory/recovery.h"
#include "support/tolerance.h"
#include "train/window/layered/layered_fixture.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/two_losses.h"

namespace accrue::train {
namespace {

using accrue::testing::Poison;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::five_micro_batches;
using ::testing::HasSubstr;
using testing::have_same_bits;
using testing::kLayeredClasses;
using testing::kLayeredLength;
using testing::kLayeredVocab;
using testing::kWindowSamples;
using testing::LayeredImages;
using testing::LayeredText;
using testing::RunnerOn;
using testing::TwoLosses;
using testing::WindowSamples;

using MakeLayered = std::unique_ptr<models::Trainable> (*)();

std::unique_ptr<models::Trainable> untied_llama() {
  return std::make_unique<models::Llama>(models::LlamaOptions{.layers = 3,
                                                              .heads = 2,
                                                              .width = 16,
                                                              .ffn_width = 24,
                                                              .context = kLayeredLength,
                                                              .vocab = kLayeredVocab,
                                                              .variant = {.tied_head = false},
                                                              .dropout = 0.1});
}

std::unique_ptr<models::Trainable> small_vit() {
  return std::make_unique<models::Vit>(models::VitOptions{.layers = 2,
                                                          .heads = 2,
                                                          .width = 16,
                                                          .patches = 16,
                                                          .classes = kLayeredClasses,
                                                          .image = {1, 8, 8},
                                                          .dropout = 0.2});
}

std::unique_ptr<models::Trainable> small_resnet() {
  return std::make_unique<models::ResNet>(models::ResNetOptions{.layers = 8,
                                                                .width = 2,
                                                                .classes = kLayeredClasses,
                                                                .image = {1, 8, 8},
                                                                .norm = models::Norm::batch});
}

/// What a window leaves, run micro-batch by micro-batch, and segment by segment.
struct BothRunners {
  std::vector<at::Tensor> plain, layered;
  std::int64_t quarantined = 0;  ///< by the layered one
};

BothRunners run_both(MakeLayered make, const std::shared_ptr<const data::Source>& source,
                     accum::Accumulation accumulation = accum::Accumulation::fp32) {
  RunnerOn<MicroBatchRunner> plain(make(), source, accumulation);
  RunnerOn<LayeredRunner> layered(make(), source, accumulation);
  const WindowRun expected = plain.runner.run(five_micro_batches());
  const WindowRun actual = layered.runner.run(five_micro_batches());
  EXPECT_TRUE(expected.gradient && actual.gradient);
  EXPECT_EQ(actual.weight, expected.weight);
  EXPECT_DOUBLE_EQ(actual.loss_sum, expected.loss_sum);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.micro_batches, expected.micro_batches);
  EXPECT_EQ(actual.quarantined, expected.quarantined);
  return {.plain = plain.left(), .layered = layered.left(), .quarantined = actual.quarantined};
}

/// Each parameter is used in one segment. ResNet's batch normalisation is by micro-batch here, and
/// its running statistics are compared too.
TEST(LayeredRunner, HasTheBitsOfMicroBatchesRunOneByOne) {
  const auto text = std::make_shared<LayeredText>();
  const auto images = std::make_shared<LayeredImages>();
  const BothRunners llama = run_both(untied_llama, text);
  EXPECT_TRUE(have_same_bits(llama.layered, llama.plain));
  const BothRunners vit = run_both(small_vit, images);
  EXPECT_TRUE(have_same_bits(vit.layered, vit.plain));
  const BothRunners resnet = run_both(small_resnet, images);
  EXPECT_TRUE(have_same_bits(resnet.layered, resnet.plain));
}

TEST(LayeredRunner, TheComparisonSeesAnotherSplit) {
  const auto text = std::make_shared<LayeredText>();
  RunnerOn<LayeredRunner> five(untied_llama(), text), other(untied_llama(), text);
  five.runner.run(five_micro_batches());
  other.runner.run(WindowRequest::even(testing::kLayeredWindow, {0, testing::kLayeredSamples}, 4));
  EXPECT_FALSE(have_same_bits(five.left(), other.left()));
}

/// The first and the last segment use the tied weight, so its contributions come in another order.
TEST(LayeredRunner, AddsToATiedWeightInAnotherOrder) {
  const auto text = std::make_shared<LayeredText>();
  const BothRunners fixed = run_both(testing::tied_gpt2, text, accum::Accumulation::fixed);
  EXPECT_TRUE(have_same_bits(fixed.layered, fixed.plain));
  const BothRunners fp32 = run_both(testing::tied_gpt2, text);
  ASSERT_EQ(fp32.layered.size(), fp32.plain.size());
  const std::int64_t terms = testing::kLayeredSamples * kLayeredLength;
  for (std::size_t i = 0; i < fp32.plain.size(); ++i)
    EXPECT_TRUE(accrue::testing::close(fp32.layered[i], fp32.plain[i], at::kFloat, terms)) << i;
  EXPECT_FALSE(have_same_bits(fp32.layered, fp32.plain)) << "the order is the same";
}

TEST(LayeredRunner, LeavesNoTraceOfAMicroBatchWhoseInputsAreNotFinite) {
  const BothRunners runs =
      run_both(small_resnet, std::make_shared<LayeredImages>(std::set<std::int64_t>{6}));
  EXPECT_EQ(runs.quarantined, 1);
  EXPECT_TRUE(have_same_bits(runs.layered, runs.plain));
}

/// Two losses, and gradients that are not finite in the first segment for some samples.
class DamagedLosses : public TwoLosses {
 public:
  std::vector<models::Segment> segments() override {
    std::vector<models::Segment> chain = TwoLosses::segments();
    chain[0].forward = [this, embed = chain[0].forward](const models::Activations& x,
                                                        const batch::MicroBatch& micro,
                                                        const ForwardContext& context) {
      if (context.rerun && micro.inputs.size(0) > most_rows) throw std::bad_alloc();
      models::Activations result = embed(x, micro, context);
      for (const std::int64_t id : micro.sample_ids)
        if (bad_embeddings.contains(id)) result[0] = result[0] + Poison::apply(embedding);
      return result;
    };
    return chain;
  }

  std::set<std::int64_t> bad_embeddings;
  /// More samples do not fit into memory in the backward pass of the first segment.
  std::int64_t most_rows = kWindowSamples;
};

/// The ids of samples whose loss, gradient, and gradient of the first segment are not finite.
struct Damage {
  std::set<std::int64_t> losses, gradients, embeddings;
  std::string reason;
};

std::unique_ptr<DamagedLosses> damaged(const Damage& damage) {
  auto model = std::make_unique<DamagedLosses>();
  model->bad_losses = damage.losses;
  model->bad_gradients = damage.gradients;
  model->bad_embeddings = damage.embeddings;
  return model;
}

/// Compares windows of damaged losses, and returns what the layered one reports as quarantined.
std::vector<std::string> quarantined_in_both(const Damage& damage) {
  const auto samples = std::make_shared<WindowSamples>();
  RunnerOn<MicroBatchRunner> plain(damaged(damage), samples);
  RunnerOn<LayeredRunner> layered(damaged(damage), samples);
  const WindowRun expected = plain.runner.run(0, {0, kWindowSamples}, 4);
  const WindowRun actual = layered.runner.run(0, {0, kWindowSamples}, 4);
  EXPECT_TRUE(expected.gradient && actual.gradient);
  EXPECT_EQ(actual.quarantined, expected.quarantined);
  EXPECT_EQ(actual.weight, expected.weight);
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_TRUE(have_same_bits(layered.left(), plain.left())) << damage.reason;
  return layered.runner.told("quarantine");
}

TEST(LayeredRunner, AddsSeveralLossesByTheirOwnDenominators) {
  EXPECT_TRUE(quarantined_in_both({}).empty());
}

/// The denominators of the losses are those of the remaining micro-batches.
TEST(LayeredRunner, LeavesTheBitsOfAWindowWithoutTheQuarantinedMicroBatch) {
  const std::vector<Damage> damages{
      {{6}, {}, {}, "its loss is not finite"},
      {{}, {6}, {}, "its gradient in 'middle' is not finite"},
      {{}, {}, {6}, "its gradient in 'embed' is not finite"},
  };
  for (const Damage& damage : damages)
    EXPECT_THAT(
        quarantined_in_both(damage),
        ElementsAre(AllOf(HasSubstr("micro-batch 1 (samples 4 to 7)"), HasSubstr(damage.reason))));
}

TEST(LayeredRunner, LeavesTheBuffersOfAnInterruptedWindowAlone) {
  memory::BudgetWatch budget("");
  const StopSignalWatch signals;
  RunnerOn<LayeredRunner> layered(small_resnet(), std::make_shared<LayeredImages>());
  std::vector<at::Tensor> before;
  for (const NamedParameter& buffer : layered.model->buffers())
    before.push_back(buffer.tensor.clone());
  layered.runner.heed(budget, signals);
  layered.runner.add_observer(std::make_shared<testing::SignalAfter>(3, SIGTERM));
  EXPECT_TRUE(layered.runner.run(five_micro_batches()).interrupted);
  EXPECT_FALSE(layered.window.is_open());
  std::vector<at::Tensor> after;
  for (const NamedParameter& buffer : layered.model->buffers())
    after.push_back(buffer.tensor.clone());
  EXPECT_TRUE(have_same_bits(after, before));
}

/// After a retry in the same size, the window starts again in smaller micro-batches, whose weights
/// are counted again.
TEST(LayeredRunner, StartsAgainInSmallerMicroBatchesIfMemoryRunsOut) {
  const auto samples = std::make_shared<WindowSamples>();
  auto model = std::make_unique<DamagedLosses>();
  model->most_rows = 2;
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  RunnerOn<LayeredRunner> layered(std::move(model), samples, accum::Accumulation::fp32, {},
                                  &recovery);
  const WindowRun actual = layered.runner.run(0, {0, kWindowSamples}, 4);
  RunnerOn<LayeredRunner> planned(std::make_unique<DamagedLosses>(), samples);
  const WindowRun expected = planned.runner.run(0, {0, kWindowSamples}, 2);
  ASSERT_TRUE(actual.gradient);
  EXPECT_EQ(actual.out_of_memory, 2);
  EXPECT_EQ(actual.micro_batches, 8);
  EXPECT_EQ(recovery.state().micro_batch, 2);
  EXPECT_EQ(actual.weight, expected.weight);
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_TRUE(have_same_bits(layered.left(), planned.left()));
}

}  // namespace
}  // namespace accrue::train
