// Passes that a device has recorded and repeats. Each program that has this file runs it on a
// device (tested_device.h).
#include "train/pass/recorded_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <stdexcept>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/device/recording.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/llama.h"
#include "device/on_device.h"
#include "support/skip.h"
#include "train/pass/run_micro_batch.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

using accrue::testing::open_tested_device;
using models::Compute;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::WithDevice;

constexpr std::int64_t vocab = 64, context = 16;

class RecordedPasses : public WithDevice<::testing::Test> {
 protected:
  void SetUp() override {
    WithDevice::SetUp();
    if (IsSkipped()) return;
    if (!device::can_record(*open_tested_device()))
      accrue::testing::missing_in_build("recording work of this device");
  }
};

models::Gpt2 small_gpt2(Compute compute = Compute::bf16) {
  return models::Gpt2({.layers = 2,
                       .heads = 2,
                       .width = 32,
                       .context = context,
                       .vocab = vocab,
                       .compute = compute});
}

/// Ids and labels below `below`; every `ignored`th label does not count.
batch::MicroBatch text(std::int64_t rows, std::int64_t seed, std::int64_t below = vocab,
                       std::int64_t ignored = 0) {
  const at::Tensor numbers =
      (at::arange(rows * (context + 1), at::kLong) * 7919 + seed * 104'729).remainder(below);
  const at::Tensor rows_of = numbers.view({rows, context + 1});
  batch::MicroBatch micro{.inputs = rows_of.narrow(1, 0, context).contiguous(),
                          .targets = rows_of.narrow(1, 1, context).contiguous(),
                          .tokens = rows * context};
  if (ignored > 0)
    micro.targets.view({-1}).masked_fill_(
        at::arange(rows * context, at::kLong).remainder(ignored).eq(0), kernels::ignored_label);
  for (std::int64_t row = 0; row < rows; ++row) micro.sample_ids.push_back(seed * 100 + row);
  return micro;
}

/// A model with windows over one gradient buffer, whose micro-batches `recorded` runs.
class Windows {
 public:
  Windows(models::Model& model, bool records) : model_(model) {
    place(model, *open_tested_device());
    buffer_ = std::make_shared<accum::GradientBuffer>(model.parameters());
    window_.emplace(buffer_);
    if (records) recorded.emplace(model, *open_tested_device());
  }

  /// The losses and weights of a window's micro-batches, its mean gradient and the number of its
  /// contributions, on the CPU. `loss_scale` is the window's.
  std::vector<at::Tensor> run(const std::vector<batch::MicroBatch>& micro_batches,
                              double loss_scale = 1) {
    window_->open(index_++, loss_scale);
    std::vector<at::Tensor> results, unread;
    for (std::int64_t i = 0; i < std::ssize(micro_batches); ++i) {
      const batch::MicroBatch& micro = micro_batches[static_cast<std::size_t>(i)];
      try {
        const MicroBatchRun ran =
            run_micro_batch(*window_, model_, {.index = i, .sample_ids = micro.sample_ids}, micro,
                            batch::training_context(micro, 1, index_),
                            {.loss_scale = loss_scale,
                             .leave_losses_on_device = true,
                             .recorded = recorded ? &*recorded : nullptr});
        unread.push_back(ran.pass.unread);
        for (const double weight : {ran.pass.weight, ran.pass.heads.weights.at(0)})
          results.push_back(at::scalar_tensor(weight, at::kDouble));
      } catch (...) {
        window_->discard();
        throw;
      }
    }
    results.push_back(at::stack(unread).cpu());
    const std::optional<accum::MeanGradient> mean = window_->close();
    for (std::size_t i = 0; i < buffer_->entries().size(); ++i) {
      results.push_back((mean->source(i).tensor * mean->scale()).cpu());
      results.push_back(at::scalar_tensor(buffer_->entries()[i].slot->contributions, at::kLong));
    }
    return results;
  }

  /// The effect of an optimizer's step on the prepared operands of weights.
  void change_weights() {
    const at::NoGradGuard no_grad;
    for (const NamedParameter& p : model_.parameters()) at::Tensor(p.tensor).mul_(1.01);
  }

  std::optional<RecordedPass> recorded;

 private:
  models::Model& model_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::optional<accum::Window> window_;
  std::int64_t index_ = 0;
};

::testing::AssertionResult same_bits(const std::vector<at::Tensor>& a,
                                     const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "other numbers of results";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return ::testing::AssertionFailure() << "result " << i;
  return ::testing::AssertionSuccess();
}

/// Windows of three micro-batches of one shape, some with labels that do not count, and a last one
/// of another shape, with steps between them.
void expect_bits_of_runs(models::Model& of_records, models::Model& of_runs) {
  Windows records(of_records, true), runs(of_runs, false);
  // Recorded if no operand of the weights has to be prepared; the weights then change.
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(same_bits(records.run({text(2, 99)}), runs.run({text(2, 99)})));
  for (std::int64_t window = 0; window < 6; ++window) {
    const double scale = window == 4 ? 2 : 1;
    const std::vector<batch::MicroBatch> micro_batches{
        text(2, 4 * window), text(2, 4 * window + 1, vocab, 3), text(2, 4 * window + 2),
        text(1, 4 * window + 3)};
    const std::vector<at::Tensor> wanted = runs.run(micro_batches, scale);
    EXPECT_TRUE(same_bits(records.run(micro_batches, scale), wanted)) << "window " << window;
    records.change_weights();
    runs.change_weights();
    EXPECT_FALSE(same_bits(records.run(micro_batches, scale), wanted)) << "other weights";
    runs.run(micro_batches, scale);
  }
  EXPECT_GE(records.recorded->repeated(), 20);
  EXPECT_THAT(records.recorded->take_news(), HasSubstr("take one launch"));
}

TEST_F(RecordedPasses, HaveTheBitsOfRunsOfGpt2) {
  for (const Compute compute : {Compute::fp32, Compute::bf16, Compute::fp16}) {
    models::Gpt2 one = small_gpt2(compute), other = small_gpt2(compute);
    expect_bits_of_runs(one, other);
  }
}

TEST_F(RecordedPasses, HaveTheBitsOfRunsOfLlamaWithAdapters) {
  const models::LlamaOptions options{.layers = 2,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .head_width = 16,
                                     .width = 32,
                                     .ffn_width = 64,
                                     .context = context,
                                     .vocab = vocab,
                                     .compute = Compute::bf16,
                                     .adapters = {.rank = 2}};
  models::Llama one(options), other(options);
  expect_bits_of_runs(one, other);
}

/// The model checks the first id beyond those that it has taken so far.
TEST_F(RecordedPasses, LeaveChecksOfIdsAndLabelsToTheModel) {
  models::Gpt2 model = small_gpt2();
  Windows windows(model, true);
  for (int i = 0; i < 4; ++i) windows.run({text(2, 1, 32)});
  const std::int64_t repeated = windows.recorded->repeated();
  EXPECT_GE(repeated, 1);
  batch::MicroBatch beyond = text(2, 7, 32);
  beyond.inputs[0][3] = vocab;
  EXPECT_THROW(windows.run({beyond}), Error);
  beyond = text(2, 7, 32);
  beyond.targets[0][3] = -1;
  EXPECT_THROW(windows.run({beyond}), Error);
  EXPECT_EQ(windows.recorded->repeated(), repeated);
  batch::MicroBatch larger = text(2, 1, 32);
  larger.inputs[0][3] = vocab - 1;
  windows.run({larger});
  EXPECT_EQ(windows.recorded->repeated(), repeated) << "the model looks at a larger id first";
  windows.run({larger});
  EXPECT_EQ(windows.recorded->repeated(), repeated + 1);
}

TEST_F(RecordedPasses, AreNoneOfAModelThatDrawsMasks) {
  models::Gpt2 model(
      {.layers = 1, .heads = 2, .width = 32, .context = context, .vocab = vocab, .dropout = 0.1});
  place(model, *open_tested_device());
  EXPECT_THROW(check_recorded_pass(model, *open_tested_device()), Error);
  models::Gpt2 plain = small_gpt2();
  EXPECT_NO_THROW(check_recorded_pass(plain, *open_tested_device()));
  EXPECT_THROW(check_recorded_pass(plain, c10::kCPU), Error);
}

/// A gpt2 whose backward pass fails once, after some slots have got their contributions.
class FailingOnce final : public models::Gpt2 {
 public:
  using Gpt2::Gpt2;
  std::vector<models::Segment> segments() override {
    std::vector<models::Segment> all = Gpt2::segments();
    all.back().forward = [this, last = all.back().forward](const auto& x, const auto& micro,
                                                           const auto& context) {
      x.at(0).register_hook([this](const at::Tensor& gradient) {
        if (std::exchange(fails_next, false)) throw std::runtime_error("no room");
        return gradient;
      });
      return last(x, micro, context);
    };
    return all;
  }
  bool fails_next = false;
};

TEST_F(RecordedPasses, GoOnAsAlwaysWhereRecordingFails) {
  const models::Gpt2Options options{
      .layers = 1, .heads = 2, .width = 32, .context = context, .vocab = vocab};
  FailingOnce failing(options);
  models::Gpt2 other(options);
  Windows records(failing, true), runs(other, false);
  const auto expect_bits = [&] {
    EXPECT_TRUE(
        same_bits(records.run({text(2, 1), text(2, 1)}), runs.run({text(2, 1), text(2, 1)})));
  };
  expect_bits();
  expect_bits();
  failing.fails_next = true;
  expect_bits();
  EXPECT_FALSE(failing.fails_next);
  EXPECT_THAT(records.recorded->take_news(),
              AllOf(HasSubstr("none is repeated"), HasSubstr("no room")));
  EXPECT_EQ(records.recorded->take_news(), "") << "told once";
  const std::int64_t repeated = records.recorded->repeated();
  expect_bits();
  EXPECT_EQ(records.recorded->repeated(), repeated);
}

/// More alternating kinds than are kept: each replaces another.
TEST_F(RecordedPasses, AreKeptOfAFewKinds) {
  models::Gpt2 one = small_gpt2(), other = small_gpt2();
  Windows records(one, true), runs(other, false);
  runs.run({text(9, 1)});
  records.run({text(9, 1)});
  for (const std::int64_t rows : {1, 1, 1, 2, 3, 4, 5, 6, 7, 1, 1, 1})
    EXPECT_TRUE(same_bits(records.run({text(rows, 1)}), runs.run({text(rows, 1)}))) << rows;
  EXPECT_EQ(records.recorded->repeated(), 4) << "the second and third of each three";
}

TEST_F(RecordedPasses, GiveTheirMemoryBack) {
  models::Gpt2 model = small_gpt2();
  Windows windows(model, true);
  memory::count_device(*open_tested_device());
  const auto live = [] { return memory::usage().live; };
  windows.run({text(2, 1)});
  const std::int64_t before = live();
  for (int i = 0; i < 3; ++i) windows.run({text(2, 1)});
  const std::int64_t repeated = windows.recorded->repeated(), with = live();
  EXPECT_GE(repeated, 1);
  EXPECT_GT(with, before);
  windows.recorded->stop("a test");
  EXPECT_LT(live(), with);
  windows.run({text(2, 1)});
  EXPECT_EQ(windows.recorded->repeated(), repeated);
}

class RecordedRuns : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && !device::can_record(*open_tested_device()))
      accrue::testing::missing_in_build("recording work of this device");
  }
  static std::string metrics_of(const Config& c) {
    std::ifstream file(RunDirectory(c.run.out).root() / "metrics.jsonl");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("\"loss\""));
    return text;
  }
  Config recorded(const std::string& out, bool graphs) const {
    Config c = on_device(out);
    c.model.dropout = 0;
    c.run.graphs = graphs;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    return c;
  }
};

TEST_F(RecordedRuns, EndAndResumeWithTheBitsOfOthers) {
  for (const Compute compute : {Compute::bf16, Compute::fp16}) {
    const std::string name(to_string(compute));
    Config plain = recorded("plain" + name, false), whole = recorded("whole" + name, true),
           parts = recorded("parts" + name, true);
    for (Config* c : {&plain, &whole, &parts}) c->precision.compute = compute;
    Trainer(plain).run();
    Trainer(whole).run();
    Config first = parts;
    first.run.steps = 3;
    first.run.graphs = false;
    Trainer(first).run();
    Trainer(parts).run({.resume = true});
    for (const Config& c : {whole, parts})
      EXPECT_THAT(metrics_of(c), AllOf(HasSubstr("take one launch"),
                                       ::testing::Not(HasSubstr("none is repeated"))));
    expect_same_bits(parameters_of(whole), parameters_of(plain));
    expect_same_bits(parameters_of(parts), parameters_of(plain));
  }
}

TEST_F(RecordedRuns, AreRefusedForAModelWithDropoutAndOnTheCpu) {
  Config c = recorded("run", true);
  c.model.dropout = 0.1;
  EXPECT_THROW(Trainer{c}, Error);
  c = recorded("run", true);
  c.run.device = Device::cpu;
  EXPECT_THROW(Trainer{c}, Error);
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
}

}  // namespace
}  // namespace accrue::train
