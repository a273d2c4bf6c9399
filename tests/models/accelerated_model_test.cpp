#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "accrue/models/checkpoint.h"
#include "accrue/models/custom_model.h"
#include "accrue/models/torch_module.h"
#include "kernels/plain/plain_operations.h"
#include "support.h"
#include "support/tolerance.h"

/// Passes of models that do not use accrue's operations, run with its kernels.
namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using ::testing::ElementsAre;
using namespace models::testing;

constexpr std::int64_t foreign_samples = 6, foreign_length = 3, foreign_width = 8;

/// Attention with dropout, also masked by the caller; dropout of planes and elements; LSTM layers
/// with dropout between them.
struct ForeignImpl : torch::nn::Module {
  ForeignImpl()
      : in(register_module("in", torch::nn::Linear(foreign_width, 3 * foreign_width))),
        drop(register_module("drop", torch::nn::Dropout(0.3))),
        planes(register_module("planes", torch::nn::Dropout2d(0.3))),
        lstm(register_module(
            "lstm",
            torch::nn::LSTM(
                torch::nn::LSTMOptions(foreign_width, foreign_width).num_layers(2).dropout(0.4)))),
        out(register_module("out", torch::nn::Linear(foreign_width, 1))) {}

  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> parts = in(x).chunk(3, 2);
    for (at::Tensor& part : parts) part = part.unflatten(2, {2, foreign_width / 2}).transpose(1, 2);
    at::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {},
                                                    is_training() ? 0.2 : 0, true);
    y = planes(y).transpose(1, 2).flatten(2);
    const at::Tensor mask = at::ones({foreign_length, foreign_length}, at::kBool).tril();
    y = y + at::scaled_dot_product_attention(parts[0], parts[1], parts[2], mask,
                                             is_training() ? 0.2 : 0)
                .transpose(1, 2)
                .flatten(2);
    y = drop(torch::nn::functional::gelu(
        y, torch::nn::functional::GELUFuncOptions().approximate("tanh")));
    if (!recurrent) return out(y);
    // libtorch folds the rows of a tensor that is not dense only in a graph.
    return out(std::get<0>(lstm(y.transpose(0, 1))).transpose(0, 1).contiguous());
  }

  bool recurrent = true;
  torch::nn::Linear in;
  torch::nn::Dropout drop;
  torch::nn::Dropout2d planes;
  torch::nn::LSTM lstm;
  torch::nn::Linear out;
};
TORCH_MODULE(Foreign);

Loss squares(const at::Tensor& output, const batch::MicroBatch& micro) {
  const at::Tensor factors = micro.targets.to(output.scalar_type()).view({-1, 1, 1});
  return {.sum = ((output - 0.3).square() * factors).sum(),
          .weight = static_cast<double>(output.size(0))};
}

/// A module as a model that owns all of it.
std::unique_ptr<CustomModel> model_of(const std::shared_ptr<torch::nn::Module>& module,
                                      ModuleForward forward, bool accelerated) {
  auto model = std::make_unique<CustomModel>(
      from_module(module, std::move(forward), squares, "model"), Compute::fp64);
  model->accelerate(accelerated);
  return model;
}

std::unique_ptr<CustomModel> foreign(bool accelerated) {
  at::manual_seed(4);
  Foreign module;
  return model_of(
      module.ptr(),
      [module](const batch::MicroBatch& micro) mutable { return module->forward(micro.inputs); },
      accelerated);
}

batch::MicroBatch sequences(std::int64_t begin, std::int64_t end) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const at::Tensor all =
      at::randn({foreign_samples, foreign_length, foreign_width}, generator, at::kDouble);
  batch::MicroBatch micro;
  micro.inputs = all.slice(0, begin, end);
  micro.targets = at::arange(begin + 1, end + 1);
  for (std::int64_t i = begin; i < end; ++i) micro.sample_ids.push_back(50 + i);
  return micro;
}

/// The sum of the losses of micro-batches of `size`, and the sums of their gradients.
std::vector<at::Tensor> sums_of(Trainable& model, std::int64_t size,
                                const kernels::Operations* operations = nullptr) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  std::vector<at::Tensor> sums(leaves.size() + 1);
  for (std::int64_t begin = 0; begin < foreign_samples; begin += size) {
    const batch::MicroBatch micro = sequences(begin, std::min(begin + size, foreign_samples));
    ForwardContext context = context_of(micro);
    context.operations = operations;
    const Loss loss = forward(model, micro, context);
    std::vector<at::Tensor> found{loss.sum.detach()};
    for (const at::Tensor& gradient : torch::autograd::grad({loss.sum}, leaves))
      found.push_back(gradient);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = sums[i].defined() ? sums[i] + found[i] : found[i];
  }
  return sums;
}

double largest_error(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, relative_error(a[i], b[i]));
  return largest;
}

TEST(AcceleratedModel, HasTheSameMasksForAnySplit) {
  const auto model = foreign(true);
  const std::vector<at::Tensor> whole = sums_of(*model, foreign_samples);
  for (const std::int64_t size : {1, 2, 4})
    EXPECT_LT(largest_error(sums_of(*model, size), whole), 1e-12) << size;
  const auto as_written = foreign(false);
  EXPECT_GT(largest_error(sums_of(*as_written, 2), sums_of(*as_written, foreign_samples)), 1e-3)
      << "libtorch's masks";
}

TEST(AcceleratedModel, IsComparedWithLibtorchUnderTheSameMasks) {
  const auto model = foreign(true);
  const std::vector<at::Tensor> mine = sums_of(*model, foreign_samples);
  const AcceleratedCalls calls = model->accelerated_calls();
  EXPECT_GT(calls.products, 0);
  EXPECT_GT(calls.attentions, 0);
  EXPECT_GT(calls.dropouts, 2) << "of elements, of planes, between layers, of masked attention";
  const std::vector<at::Tensor> plain =
      sums_of(*model, foreign_samples, &kernels::plain_operations());
  EXPECT_LT(largest_error(mine, plain), 1e-12);
  EXPECT_EQ(model->accelerated_calls().products, calls.products) << "libtorch did them";
}

TEST(AcceleratedModel, RunsWithoutAGraphToTheSameBits) {
  const auto model = foreign(true);
  const batch::MicroBatch micro = sequences(0, foreign_samples);
  const at::Tensor with_graph = forward(*model, micro, context_of(micro)).sum;
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(forward(*model, micro, context_of(micro)).sum, with_graph));
}

TEST(AcceleratedModel, InBf16RunsWithoutAGraphToTheSameBits) {
  at::manual_seed(4);
  Foreign module;
  module->recurrent = false;
  CustomModel model(from_module(
                        module.ptr(),
                        [module](const batch::MicroBatch& micro) mutable {
                          return module->forward(micro.inputs.to(at::kFloat));
                        },
                        squares, "model"),
                    Compute::bf16);
  model.accelerate(true);
  const batch::MicroBatch micro = sequences(0, foreign_samples);
  const at::Tensor with_graph = forward(model, micro, context_of(micro)).sum;
  EXPECT_EQ(with_graph.scalar_type(), at::kFloat);
  EXPECT_GT(model.accelerated_calls().products, 0);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(forward(model, micro, context_of(micro)).sum, with_graph));
}

TEST(AcceleratedModel, IsEvaluatedAsItIsWritten) {
  const batch::MicroBatch micro = sequences(0, foreign_samples);
  ForwardContext context = context_of(micro);
  context.training = false;
  const auto accelerated = foreign(true), as_written = foreign(false);
  EXPECT_TRUE(at::equal(evaluate(*accelerated, micro, context).sum,
                        evaluate(*as_written, micro, context).sum));
  EXPECT_EQ(accelerated->accelerated_calls().products, 0);
}

std::vector<std::string> dropouts_of(const Model& model) {
  std::vector<std::string> names;
  for (const ForeignLayer& layer : model.foreign_layers()) names.push_back(layer.name);
  return names;
}

TEST(AcceleratedModel, NamesTheDropoutsThatAccrueHasNoMasksFor) {
  EXPECT_THAT(dropouts_of(*foreign(false)), ElementsAre("drop", "planes", "lstm"));
  EXPECT_THAT(dropouts_of(*foreign(true)), ElementsAre());
  torch::nn::Sequential net(torch::nn::Linear(foreign_width, 4), torch::nn::AlphaDropout(0.5),
                            torch::nn::Dropout(0.5));
  const auto run = [net](const batch::MicroBatch& micro) mutable {
    return net->forward(micro.inputs);
  };
  EXPECT_THAT(dropouts_of(*model_of(net.ptr(), run, false)), ElementsAre("1", "2"));
  const auto accelerated = model_of(net.ptr(), run, true);
  EXPECT_THAT(dropouts_of(*accelerated), ElementsAre("1"));
  // Once a dropout has met a tensor whose rows are not foreign_samples', none of them is certain.
  const auto odd = model_of(
      net.ptr(),
      [net](const batch::MicroBatch& micro) mutable {
        const at::Tensor y = at::dropout(micro.inputs.flatten().slice(0, 1), 0.5, true);
        return net->forward(micro.inputs) + y.sum();
      },
      true);
  sums_of(*odd, foreign_samples);
  EXPECT_THAT(dropouts_of(*odd), ElementsAre("1", "2"));
}

/// Drops elements of a table, whose rows are not samples.
struct TableImpl : torch::nn::Module {
  TableImpl()
      : table(register_parameter("table", at::randn({6, foreign_width}))),
        drop(register_module("drop", torch::nn::Dropout(0.5))) {}
  at::Tensor forward(const at::Tensor& x) { return x + drop(table).sum(0); }
  at::Tensor table;
  torch::nn::Dropout drop;
};
TORCH_MODULE(Table);

TEST(AcceleratedModel, NamesDropoutsThatPassesShowNotToBeBySample) {
  const auto pass = [](Trainable& model, std::int64_t size) {
    const batch::MicroBatch micro = sequences(0, size);
    forward(model, micro, context_of(micro));
  };
  Table module;
  const auto table = model_of(
      module.ptr(),
      [module](const batch::MicroBatch& micro) mutable { return module->forward(micro.inputs); },
      true);
  pass(*table, 3);
  EXPECT_THAT(dropouts_of(*table), ElementsAre()) << "6 rows may be 3 samples' of 2";
  pass(*table, 2);
  EXPECT_THAT(dropouts_of(*table), ElementsAre("drop")) << "and not 2 samples', then of 3";
  const auto sequences_first = foreign(true);
  pass(*sequences_first, 4);  // equal neither to the heads nor to the positions
  EXPECT_THAT(dropouts_of(*sequences_first), ElementsAre());
  pass(*sequences_first, foreign_length);
  EXPECT_THAT(dropouts_of(*sequences_first), ElementsAre("drop", "planes", "lstm"))
      << "as many positions as samples";
}

struct InnerImpl : torch::nn::Module {
  InnerImpl() : drop(register_module("drop", torch::nn::Dropout(0.5))) {}
  at::Tensor forward(const at::Tensor& x) { return drop(x); }
  torch::nn::Dropout drop;
};
TORCH_MODULE(Inner);

TEST(AcceleratedModel, MasksOfASequentialsOwnDropoutAreNotThoseOfOneInside) {
  torch::nn::Sequential net;
  net->push_back(torch::nn::Dropout(0.5));
  net->push_back(Inner());
  net->push_back(torch::nn::Linear(foreign_width, 1));
  CustomModel model(from_sequential(net, squares, "net"), Compute::fp64);
  model.accelerate(true);
  const batch::MicroBatch micro = sequences(0, foreign_samples);
  batch::MicroBatch ones = micro;
  ones.inputs = at::ones({foreign_samples, 64, foreign_width}, at::kDouble);
  const at::NoGradGuard no_grad;
  net[2]->as<torch::nn::Linear>()->weight.fill_(1);
  net[2]->as<torch::nn::Linear>()->bias.fill_(0);
  // Elements that both keep have the value 4: a quarter of them, not half.
  const double kept =
      run_segments(model, ones, context_of(ones))[0].mean().item<double>() / foreign_width / 4;
  EXPECT_NEAR(kept, 0.25, 0.05);
}

TEST(AcceleratedModel, RunsACheckpointAgainWithTheMasksItHad) {
  const auto gradients = [](bool checkpointed) {
    at::manual_seed(4);
    Foreign module;
    const auto model = model_of(
        module.ptr(),
        [module, checkpointed](const batch::MicroBatch& micro) mutable {
          auto run = [module](const at::Tensor& x) mutable { return module->forward(x); };
          const at::Tensor x = at::dropout(micro.inputs, 0.5, true);
          return checkpointed ? checkpoint(run, x) : run(x);
        },
        true);
    const batch::MicroBatch micro = sequences(0, foreign_samples);
    const Loss loss = forward(*model, micro, context_of(micro));
    loss.sum.backward();
    std::vector<at::Tensor> found{loss.sum.detach()};
    for (const auto& [name, tensor] : model->parameters()) found.push_back(tensor.grad());
    return found;
  };
  EXPECT_LT(largest_error(gradients(true), gradients(false)), 1e-12);
}

}  // namespace
}  // namespace accrue::models
