// The public headers' templates of a model, of each kind of model that they name: they compile, and
// take the step of a plain loop.
//
// Here: Accumulator(Model), Accumulator(List), Accumulator::plan, AccumulatingOptimizer(Model),
// accumulating, accumulate, accelerate, Stepper, step, coupled_step, plan, verify, verify_loop.
// Others by their rooms' tests: Trainer and train::trainable (train/workload/custom_run_test),
// data::own_source and OwnBatch (own_batch_run_test), checkpoint (models/checkpoint_test),
// EnumWords (core/enum_words_test); what does not compile in tests/consumer/misuse.cpp.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "accrue/accrue.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

constexpr double kRate = 0.1;
constexpr std::int64_t kSamples = 9;

at::Tensor first_values() { return at::sin(at::arange(20, at::kDouble)).view({4, 5}); }
at::Tensor second_values() { return at::cos(at::arange(5, at::kDouble)).view({5, 1}); }
at::Tensor rows() { return at::sin(at::arange(kSamples * 4, at::kDouble) * 0.7).view({-1, 4}); }

struct Net : torch::nn::Module {
  Net() {
    first = register_parameter("first", first_values());
    second = register_parameter("second", second_values());
  }
  at::Tensor forward(const at::Tensor& x) const { return x.matmul(first).tanh().matmul(second); }
  at::Tensor first, second;
};

/// A class of the user's own that lists its parameters as accrue does.
struct OwnNamed {
  at::Tensor first = first_values().requires_grad_(), second = second_values().requires_grad_();
  NamedParameters named_parameters() const { return {{"first", first}, {"second", second}}; }
  std::vector<at::Tensor> parameters() const { return {first, second}; }
  at::Tensor forward(const at::Tensor& x) const { return x.matmul(first).tanh().matmul(second); }
};

/// The least that a model has.
struct OwnPlain {
  at::Tensor first = first_values().requires_grad_(), second = second_values().requires_grad_();
  std::vector<at::Tensor> parameters() const { return {first, second}; }
  at::Tensor forward(const at::Tensor& x) const { return x.matmul(first).tanh().matmul(second); }
};

TORCH_MODULE_IMPL(Held, Net);

torch::jit::Module scripted() {
  torch::jit::Module module("Network");
  module.register_parameter("first", first_values().requires_grad_(), false);
  module.register_parameter("second", second_values().requires_grad_(), false);
  module.register_buffer("unused", torch::zeros({2}));
  module.define(
      "def forward(self, x):\n"
      "  return torch.matmul(torch.tanh(torch.matmul(x, self.first)), self.second)\n");
  return module;
}

template <class Model>
Model make() {
  if constexpr (std::is_same_v<Model, torch::jit::Module>)
    return scripted();
  else if constexpr (std::is_same_v<Model, std::shared_ptr<Net>>)
    return std::make_shared<Net>();
  else
    return Model();
}

template <class Model>
at::Tensor output(Model& model, const at::Tensor& x) {
  if constexpr (std::is_same_v<Model, torch::jit::Module>)
    return model.forward({x}).toTensor();
  else if constexpr (requires { model->forward(x); })
    return model->forward(x);
  else
    return model.forward(x);
}

template <class Model>
std::vector<at::Tensor> parameters_of(Model& model) {
  return detail::tensors_of(detail::named_parameters_of(model));
}

Loss loss_of_output(const at::Tensor& y) {
  return {(y - 1).square().sum(), static_cast<double>(y.size(0))};
}

const auto kLoss = [](auto& model, const at::Tensor& x) {
  return loss_of_output(output(model, x));
};

/// The parameters after a plain step of the whole batch.
std::vector<at::Tensor> after_plain_step() {
  Net net;
  torch::optim::SGD optimizer(net.parameters(), kRate);
  (loss_of_output(net.forward(rows())).sum / kSamples).backward();
  optimizer.step();
  return net.parameters();
}

double distance(const std::vector<at::Tensor>& actual) {
  const std::vector<at::Tensor> expected = after_plain_step();
  if (actual.size() != expected.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, testing::relative_error(actual[i], expected[i]));
  return worst;
}

/// A batch type of the user's own, in a namespace of its own, as its functions would hide accrue's.
namespace users {
struct OwnBatch {
  at::Tensor x;
};
std::int64_t batch_size(const OwnBatch& batch) { return batch.x.size(0); }
OwnBatch batch_slice(const OwnBatch& batch, std::int64_t begin, std::int64_t end) {
  return {batch.x.slice(0, begin, end)};
}
OwnBatch batch_in_double(const OwnBatch& batch) { return {batch.x.to(at::kDouble)}; }
}  // namespace users
using users::OwnBatch;

template <class Model>
class Templates : public ::testing::Test {
 protected:
  Model subject = make<Model>();
  torch::optim::SGD sgd{parameters_of(subject), kRate};
};

using Models =
    ::testing::Types<Held, Net, std::shared_ptr<Net>, torch::jit::Module, OwnNamed, OwnPlain>;
TYPED_TEST_SUITE(Templates, Models);

TYPED_TEST(Templates, StepTakesEachKindOfBatch) {
  using Tensors = std::vector<at::Tensor>;
  {
    EXPECT_GT(distance(parameters_of(this->subject)), 1e-3) << "the comparator sees no step";
    const StepReport report = step(this->subject, this->sgd, rows(), kLoss, {.micro_batch = 4});
    EXPECT_EQ(report.micro_batches, 3);
    EXPECT_LE(distance(parameters_of(this->subject)), 1e-12);
  }
  const auto steps_right = [](const auto& batch, const auto& loss_fn) {
    TypeParam model = make<TypeParam>();
    torch::optim::SGD optimizer(parameters_of(model), kRate);
    step(model, optimizer, batch, loss_fn, {.micro_batch = 4});
    return distance(parameters_of(model)) <= 1e-12;
  };
  EXPECT_TRUE(steps_right(Tensors{rows(), rows()},
                          [](TypeParam& m, const Tensors& micro) { return kLoss(m, micro[0]); }));
  EXPECT_TRUE(steps_right(OwnBatch{rows()},
                          [](TypeParam& m, const OwnBatch& micro) { return kLoss(m, micro.x); }));
  EXPECT_TRUE(steps_right(
      batch::MicroBatch{.inputs = rows()},
      [](TypeParam& m, const batch::MicroBatch& micro) { return kLoss(m, micro.inputs); }));
}

TYPED_TEST(Templates, AStepperSteps) {
  Stepper stepper(this->subject, this->sgd);
  EXPECT_EQ(stepper.share(kSamples).size(), kSamples);
  EXPECT_TRUE(stepper.step(rows(), kLoss).stepped);
  EXPECT_LE(distance(parameters_of(this->subject)), 1e-12);
}

TYPED_TEST(Templates, AnAccumulatorAndWrappedOptimizersStep) {
  const auto run = [](TypeParam& model, auto& accumulator) {
    for (const at::Tensor& micro : rows().split(4))
      accumulator.backward(kLoss(model, micro), Samples{micro.size(0)});
  };
  if constexpr (detail::HasNamedParameters<TypeParam>) {
    Accumulator accumulator(this->subject);
    run(this->subject, accumulator);
    accumulator.step(this->sgd);
    EXPECT_LE(distance(parameters_of(this->subject)), 1e-12);

    TypeParam another = make<TypeParam>();
    torch::optim::SGD inner(parameters_of(another), kRate);
    AccumulatingOptimizer wrapped(another, inner, {.batch = Samples{kSamples}});
    run(another, wrapped);
    wrapped.step();
    EXPECT_LE(distance(parameters_of(another)), 1e-12);

    TypeParam third = make<TypeParam>();
    torch::optim::SGD last(parameters_of(third), kRate);
    auto accumulates = accumulating(third, last, 3);
    run(third, accumulates);
    accumulates.step();
    EXPECT_LE(distance(parameters_of(third)), 1e-12);
  } else {
    Accumulator accumulator(this->subject.parameters());
    run(this->subject, accumulator);
    accumulator.step(this->sgd);
    EXPECT_LE(distance(parameters_of(this->subject)), 1e-12);
  }
}

TYPED_TEST(Templates, AnAccumulatorTakesTheListOfNames) {
  const auto expect_names = [](const auto& list) {
    const Accumulator accumulator(list);
    EXPECT_EQ(accumulator.current_window().buffer()->entries().at(1).name, "second");
  };
  if constexpr (requires { this->subject->named_parameters(); }) {
    expect_names(this->subject->named_parameters());
  } else if constexpr (requires { this->subject.named_parameters(); }) {
    expect_names(this->subject.named_parameters());
  }
}

TYPED_TEST(Templates, AccumulateGivesTheGradient) {
  const std::vector<at::Tensor> micro_batches = rows().split(2);
  const Accumulated result = accumulate(this->subject, micro_batches, kLoss);
  EXPECT_EQ(result.weight, kSamples);
  const auto parameters = parameters_of(this->subject);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() = result.gradients.at(i).tensor;
  this->sgd.step();
  EXPECT_LE(distance(parameters), 1e-12);
}

TYPED_TEST(Templates, PlansALoop) {
  EXPECT_GE(plan(this->subject, rows(), kLoss).micro_batch, 1);
  if constexpr (detail::HasNamedParameters<TypeParam>) {
    Accumulator accumulator(this->subject);
    EXPECT_GE(accumulator.plan(this->subject, rows(), kLoss).micro_batch, 1);
    EXPECT_EQ(accumulator.plan(this->subject, rows(), kLoss, {.batch_samples = 64}).batch_samples,
              64);
  }
}

TYPED_TEST(Templates, ACoupledStepTakesTensorsAndListsOfThem) {
  const auto mean_of_all = [](const at::Tensor& y) { return loss_of_output(y).sum / kSamples; };
  const auto encode = [](TypeParam& model, const at::Tensor& x) { return output(model, x); };
  const StepReport report =
      coupled_step(this->subject, this->sgd, rows(), encode, mean_of_all, {.micro_batch = 4});
  EXPECT_EQ(report.micro_batches, 3);
  EXPECT_EQ(report.micro_batch, 3) << "9 are 3 + 3 + 3, as in a Stepper";
  EXPECT_LE(distance(parameters_of(this->subject)), 1e-12);
  TypeParam another = make<TypeParam>();
  torch::optim::SGD optimizer(parameters_of(another), kRate);
  coupled_step(
      another, optimizer, rows(),
      [](TypeParam& model, const at::Tensor& x) { return std::vector{output(model, x)}; },
      [](const std::vector<at::Tensor>& all) { return loss_of_output(all.at(0)); },
      {.micro_batch = 4});
  EXPECT_LE(distance(parameters_of(another)), 1e-12);
}

TYPED_TEST(Templates, AccelerateTakesTheModel) {
  const Accelerated accelerated = accelerate(this->subject);
  step(this->subject, this->sgd, rows(), kLoss, {.micro_batch = 4});
  EXPECT_LE(distance(parameters_of(this->subject)), 1e-10);
}

TYPED_TEST(Templates, VerifyProvesModelAndLoop) {
  if constexpr (detail::HasNamedParameters<TypeParam>) {
    const auto loss = [](TypeParam& model, const OwnBatch& micro) { return kLoss(model, micro.x); };
    EXPECT_TRUE(verify(this->subject, OwnBatch{rows()}, loss).equal);
    const auto loop = [&](TypeParam& model, const std::vector<OwnBatch>& micro_batches) {
      for (const OwnBatch& micro : micro_batches) (kLoss(model, micro.x).sum / kSamples).backward();
    };
    EXPECT_TRUE(verify_loop(this->subject, OwnBatch{rows()}, loss, loop).equal);
    const auto by_size = [&](TypeParam& model, const OwnBatch& batch, std::int64_t micro) {
      for (const at::Tensor& x : batch.x.split(micro)) kLoss(model, x).sum.backward();
    };
    EXPECT_FALSE(verify_loop(this->subject, OwnBatch{rows()}, loss, by_size).equal)
        << "a sum is no mean";
  }
}

}  // namespace
}  // namespace accrue
