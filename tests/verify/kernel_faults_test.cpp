// Faults planted in the operations of a model, and in the way they put gradients into slots: verify
// finds each, in fp32 and in bf16.
#include <gmock/gmock.h>

#include "accrue/kernels/grad_slot.h"
#include "changed_model.h"
#include "configs_to_verify.h"
#include "forwarding_operations.h"
#include "scaled_gradient.h"
#include "verify/config/config_subject.h"
#include "verify/operations/operation_check.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using ::testing::HasSubstr;
using testing::ScaledGradient;
using testing::Segments;

/// Only the first row's gradient of `x` [B, T, C] is multiplied by `factor`.
struct FirstTokenCounts : torch::autograd::Function<FirstTokenCounts> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            double factor) {
    context->saved_data["factor"] = factor;
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor changed = gradients[0].clone();
    changed[0][0].mul_(context->saved_data["factor"].toDouble());
    return {changed, at::Tensor()};
  }
};

/// accrue's operations, one of which has a fault.
class FaultyOperations final : public testing::ForwardingOperations {
 public:
  double bias_factor = 1;    ///< of the gradient of every linear layer's bias; 0: skipped
  double weight_factor = 1;  ///< of the gradient of every linear layer's weight
  double token_factor = 1;   ///< of one token's gradient in the embedding
  bool head_is_tied = true;  ///< whether the head's part reaches the embedding
  bool norm_has_last_row = true;

  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    kernels::PreparedWeight& prepared,
                    const kernels::Remake& remake) const override {
    return native().linear(x, scaled(weight, weight_factor), scaled(bias, bias_factor), prepared,
                           remake);
  }
  at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        double eps, at::ScalarType out) const override {
    if (norm_has_last_row || x.dim() != 3) return native().layer_norm(x, weight, bias, eps, out);
    const std::int64_t rows = x.size(1);
    const auto part = [&](std::int64_t begin, std::int64_t count, const at::Tensor& w,
                          const at::Tensor& b) {
      return native().layer_norm(x.narrow(1, begin, count).contiguous(), w, b, eps, out);
    };
    return at::cat(
        {part(0, rows - 1, weight, bias), part(rows - 1, 1, weight.detach(), bias.detach())}, 1);
  }
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override {
    const at::Tensor x = native().embed_tokens(ids, token_table, position_table, spans);
    return token_factor == 1 ? x : FirstTokenCounts::apply(x, token_factor);
  }
  Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, kernels::PreparedWeight& prepared,
                            const kernels::LinearCrossEntropyOptions& options) const override {
    return native().linear_cross_entropy(hidden, head_is_tied ? weight : weight.detach(), targets,
                                         prepared, options);
  }

 private:
  static at::Tensor scaled(const at::Tensor& parameter, double factor) {
    if (factor == 1 || !parameter.defined()) return parameter;
    return factor == 0 ? parameter.detach() : ScaledGradient::apply(parameter, factor);
  }
};

/// Replaces accrue's own operations by the faulty ones everywhere.
ChangedModel::Fault done_by(const kernels::Operations& faulty) {
  const auto with_fault = [&faulty](ForwardContext context) {
    if (!context.operations) context.operations = &faulty;
    return context;
  };
  return {.segments =
              [with_fault](Segments& segments) {
                for (models::Segment& segment : segments)
                  segment.forward = [with_fault, sound = segment.forward](
                                        const models::Activations& x,
                                        const batch::MicroBatch& micro,
                                        const ForwardContext& context) {
                    return sound(x, micro, with_fault(context));
                  };
              },
          .losses =
              [with_fault](testing::LossHeads& heads) {
                for (models::LossHead& head : heads)
                  head.forward = [with_fault, sound = head.forward](
                                     const models::Activations& x, const batch::MicroBatch& micro,
                                     const ForwardContext& context, double scale) {
                    return sound(x, micro, with_fault(context), scale);
                  };
              }};
}

/// Contribution `which` of each window overwrites the sums, as if the slot were empty.
ChangedModel::Fault overwrites(std::int64_t which) {
  return {.before_pass = [=](const NamedParameters& parameters, const batch::MicroBatch&) {
    for (const NamedParameter& parameter : parameters) {
      kernels::GradSlot* const slot = kernels::open_slot_of(parameter.tensor);
      if (slot && slot->contributions == which - 1) slot->fresh = true;
    }
  }};
}

class KernelFaults : public testing::ConfigsToVerify {
 protected:
  static Report verified(const train::Config& config, const ChangedModel::Fault& fault) {
    train::Workload work = train::open_workload(config);
    work.model = std::make_unique<ChangedModel>(std::move(work.model), fault);
    return verify_workload(std::move(work));
  }
  static std::string why(const Report& report) {
    return conclusion(report) + ::testing::PrintToString(report.evidence);
  }
  /// Expects the fault in fp32 and in bf16; the same config is correct without it.
  static void expect_found(train::Config config, const FaultyOperations& faulty) {
    for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
      config.precision.compute = compute;
      const Report broken = verified(config, done_by(faulty));
      EXPECT_FALSE(broken.equal) << to_string(compute) << why(broken);
      EXPECT_GT(broken.max_relative_error, broken.bound) << to_string(compute);
      EXPECT_EQ(to_string(broken.cause), "unknown") << to_string(compute) << why(broken);
    }
  }
  train::Config without_dropout() const {
    train::Config config = of_text();
    config.model.dropout = 0;
    config.run.threads = 1;  // operations are small
    return config;
  }
};

TEST_F(KernelFaults, SoundOperationsAreEqual) {
  const FaultyOperations sound;
  train::Config config = without_dropout();
  for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
    config.precision.compute = compute;
    const Report report = verified(config, done_by(sound));
    EXPECT_TRUE(report.equal) << why(report);
    EXPECT_TRUE(report.conclusive) << why(report);
    EXPECT_TRUE(report.complete);
    if (compute == models::Compute::fp32) {
      EXPECT_THAT(report.left_out, ::testing::IsEmpty());
    } else {  // steps are only conclusive in fp64, on 8 samples
      EXPECT_THAT(report.left_out,
                  ::testing::ElementsAre(HasSubstr("a proof of the optimizer's steps")));
    }
  }
}

/// A fault of one operation is detected and named when that operation is compared separately.
TEST_F(KernelFaults, AnOperationIsNamedByItself) {
  for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
    SCOPED_TRACE(to_string(compute));
    train::Config config = without_dropout();
    config.precision.compute = compute;
    const train::Workload work = train::open_workload(config);
    ConfigSubject subject(work);
    FaultyOperations operations;
    const OperationCheck sound = check_operations(subject, {0, 4}, operations).value();
    EXPECT_TRUE(sound.result.equal);
    EXPECT_FALSE(sound.differing);
    operations.bias_factor = 1.001;
    const OperationCheck broken = check_operations(subject, {0, 4}, operations).value();
    EXPECT_FALSE(broken.result.equal);
    ASSERT_TRUE(broken.differing);
    EXPECT_EQ(broken.differing->operation, "linear");
    EXPECT_THAT(broken.differing->what, ::testing::ContainsRegex("the gradient of .*bias"));
    EXPECT_NEAR(broken.differing->factor, 1.001, 2e-4);
  }
}

TEST_F(KernelFaults, ABiasWithoutGradientIsFound) {
  FaultyOperations faulty;
  faulty.bias_factor = 0;
  expect_found(without_dropout(), faulty);
}

TEST_F(KernelFaults, ABiasGradientTimes1001ThousandthsIsFound) {
  FaultyOperations faulty;
  faulty.bias_factor = 1.001;
  expect_found(without_dropout(), faulty);
}

TEST_F(KernelFaults, AWeightGradientTimes101HundredthsIsFound) {
  FaultyOperations faulty;
  faulty.weight_factor = 1.01;
  expect_found(without_dropout(), faulty);
}

TEST_F(KernelFaults, ANormWithoutItsLastRowIsFound) {
  FaultyOperations faulty;
  faulty.norm_has_last_row = false;
  expect_found(without_dropout(), faulty);
}

TEST_F(KernelFaults, ATiedContributionThatIsDroppedIsFound) {
  FaultyOperations faulty;
  faulty.head_is_tied = false;
  expect_found(without_dropout(), faulty);
}

TEST_F(KernelFaults, OneTokenTwiceAmongTenThousandIsFound) {
  FaultyOperations faulty;
  faulty.token_factor = 2;
  train::Config config = without_dropout();
  config.model.layers = 1;
  config.model.context = 20;
  config.batch.samples = 504;
  config.batch.micro = 504;
  std::ofstream text(config.data.train.front(), std::ios::app);
  for (int i = 0; i < 700; ++i) text << "line " << i * 7919 % 1000 << " of a larger text\n";
  text.close();
  expect_found(config, faulty);
}

TEST_F(KernelFaults, AContributionThatOverwritesIsFound) {
  train::Config config = without_dropout();
  for (const std::int64_t which : {4, 16}) {
    config.batch.samples = which + 1;
    config.batch.micro = 1;
    for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
      config.precision.compute = compute;
      train::Workload work = train::open_workload(config);
      work.model = std::make_unique<ChangedModel>(std::move(work.model), overwrites(which));
      const Report broken = verify_workload(std::move(work));
      EXPECT_FALSE(broken.equal) << which << to_string(compute) << why(broken);
    }
  }
}

/// A parameter that the loss does not depend on is correct, and is reported.
TEST_F(KernelFaults, WhatGetsNoGradientIsNamed) {
  const Report report = verify_config(of_torchscript("  y = x * self.unused\n"));
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_THAT(report.left_out, ::testing::ElementsAre(::testing::HasSubstr("unused")));
}

}  // namespace
}  // namespace accrue::proof
