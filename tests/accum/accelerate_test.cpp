#include "accrue/kernels/accelerate.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/kernels/grad_slot.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::relative_error;
using testing::tolerance;
using Tensors = std::vector<at::Tensor>;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr std::int64_t kTerms = 500;  ///< more than an element of any sum below adds up

/// What a user's forward may be, as a function of its input, beside the model with its parameters.
struct Case {
  std::string name;
  std::shared_ptr<nn::Module> model;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<std::int64_t> sizes;                                     ///< of the input
  std::function<std::int64_t(const AcceleratedCalls&)> replaced = {};  ///< null: nothing is
  bool takes_ids = false;
};

std::int64_t count_products(const AcceleratedCalls& calls) { return calls.products; }
std::int64_t count_norms(const AcceleratedCalls& calls) { return calls.layer_norms; }
std::int64_t count_embeddings(const AcceleratedCalls& calls) { return calls.embeddings; }
std::int64_t count_gelus(const AcceleratedCalls& calls) { return calls.gelus; }
std::int64_t count_attentions(const AcceleratedCalls& calls) { return calls.attentions; }
/// libtorch's recurrent layers are products in fp64, and one operation of oneDNN's in fp32.
std::int64_t in_some_dtypes(const AcceleratedCalls& /*calls*/) { return 1; }
std::int64_t count_all(const AcceleratedCalls& calls) {
  return calls.products + calls.layer_norms + calls.embeddings + calls.gelus + calls.attentions +
         calls.dropouts;
}

struct Weights : nn::Module {
  explicit Weights(const std::vector<std::vector<std::int64_t>>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      w.push_back(register_parameter("w" + std::to_string(i), torch::randn(sizes[i]) * 0.3));
  }
  Tensors w;
};

template <class Holder>
Case of_module(std::string name, Holder module, std::vector<std::int64_t> sizes,
               std::function<std::int64_t(const AcceleratedCalls&)> replaced = {},
               bool takes_ids = false) {
  return {std::move(name),
          module.ptr(),
          [module](const at::Tensor& x) mutable { return module->forward(x); },
          std::move(sizes),
          std::move(replaced),
          takes_ids};
}

Case of_weights(std::string name, const std::vector<std::vector<std::int64_t>>& weights,
                std::vector<std::int64_t> sizes,
                std::function<at::Tensor(const Tensors&, const at::Tensor&)> forward,
                std::function<std::int64_t(const AcceleratedCalls&)> replaced = {}) {
  auto model = std::make_shared<Weights>(weights);
  return {std::move(name), model,
          [model, forward](const at::Tensor& x) { return forward(model->w, x); }, std::move(sizes),
          std::move(replaced)};
}

/// [B, T, heads * W] as [B, heads, T, W].
at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

at::Tensor attend(const Tensors& w, const at::Tensor& x, bool packed, bool causal,
                  std::optional<double> scale) {
  Tensors parts = x.matmul(w[0]).chunk(3, 2);
  for (at::Tensor& part : parts) part = packed ? heads_of(part, 2) : heads_of(part, 2).contiguous();
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, causal, scale)
      .transpose(1, 2)
      .flatten(2);
}

std::vector<Case> product_cases() {
  nn::LSTM recurrent(nn::LSTMOptions(5, 4).num_layers(2));
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(6, 2));
  return {
      of_module("linear of rows", nn::Linear(5, 7), {6, 5}, count_products),
      of_module("linear of 3 dimensions", nn::Linear(5, 7), {2, 3, 5}, count_products),
      of_module("linear of 4 dimensions", nn::Linear(5, 7), {2, 3, 2, 5}, count_products),
      of_module("linear of one row", nn::Linear(5, 7), {5}, count_products),
      of_module("linear to one", nn::Linear(5, 1), {6, 5}, count_products),
      of_module("linear from one", nn::Linear(1, 4), {6, 1}, count_products),
      of_module("linear of no rows", nn::Linear(5, 7), {0, 5}),
      of_module("linear without bias", nn::Linear(nn::LinearOptions(5, 7).bias(false)), {6, 5},
                count_products),
      of_module("sequence",
                nn::Sequential(nn::Linear(5, 8), nn::ReLU(nn::ReLUOptions(true)), nn::Linear(8, 8),
                               nn::Tanh(), nn::Linear(8, 2)),
                {6, 5}, count_products),
      of_weights(
          "columns", {{7, 6}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return x.t().mm(w[0].t()); }, count_products),
      of_weights(
          "input by width", {{5, 7}, {7}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return at::addmm(w[1], x, w[0]); },
          count_products),
      of_weights(
          "scaled sum", {{5, 7}, {7}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return at::addmm(w[1], x, w[0], 0.5, 2); }),
      of_weights("bias of rows", {{5, 7}, {6, 7}}, {6, 5},
                 [](const Tensors& w, const at::Tensor& x) { return at::addmm(w[1], x, w[0]); }),
      of_weights(
          "twice, and transposed", {{5, 5}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) {
            return x.mm(w[0]).tanh().mm(w[0].t()).mm(w[0]);
          },
          count_products),
      of_weights(
          "part of a parameter", {{7, 5}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return F::linear(x, w[0].narrow(0, 1, 4)); }),
      of_weights("computed weight", {{7, 5}, {7, 1}}, {6, 5},
                 [](const Tensors& w, const at::Tensor& x) {
                   return F::linear(x, w[0] / w[0].norm(2, {1}, true) * w[1]);
                 }),
      of_weights("weight on the left", {{7, 6}}, {6, 5},
                 [](const Tensors& w, const at::Tensor& x) { return w[0].mm(x); }),
      of_module("recurrent cell", nn::GRUCell(5, 4), {6, 5}, count_products),
      {"recurrent layers",
       recurrent.ptr(),
       [recurrent](const at::Tensor& x) mutable { return std::get<0>(recurrent->forward(x)); },
       {3, 2, 5},
       in_some_dtypes},
      {"attention module",
       attention.ptr(),
       [attention](const at::Tensor& x) mutable {
         return std::get<0>(attention->forward(x, x, x));
       },
       {3, 2, 6},
       count_products},
  };
}

std::vector<Case> row_cases() {
  nn::Embedding table(nn::EmbeddingOptions(9, 5));
  return {
      of_module("layer norm", nn::LayerNorm(nn::LayerNormOptions({5})), {2, 3, 5}, count_norms),
      of_module("layer norm of a row", nn::LayerNorm(nn::LayerNormOptions({5})), {5}, count_norms),
      of_module("layer norm of planes", nn::LayerNorm(nn::LayerNormOptions({3, 5})), {2, 3, 5}),
      of_weights(
          "layer norm of columns", {{6}, {6}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) {
            return at::layer_norm(x.t(), {6}, w[0], w[1]);
          },
          count_norms),
      of_weights(
          "layer norm without bias", {{5}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return at::layer_norm(x, {5}, w[0]); }),
      of_module("embedding", table, {3, 4}, count_embeddings, true),
      of_module("embedding of a row", nn::Embedding(9, 5), {7}, count_embeddings, true),
      of_module("padded embedding", nn::Embedding(nn::EmbeddingOptions(9, 5).padding_idx(2)),
                {3, 9}, count_embeddings, true),
      of_module("by frequency", nn::Embedding(nn::EmbeddingOptions(9, 5).scale_grad_by_freq(true)),
                {3, 9}, {}, true),
      {"tied",
       table.ptr(),
       [table](const at::Tensor& ids) mutable {
         return F::linear(table->forward(ids), table->weight);
       },
       {3, 4},
       count_all,
       true},
      of_weights(
          "gelu", {{5}}, {6, 5},
          [](const Tensors& w, const at::Tensor& x) { return at::gelu(x * w[0], "tanh"); },
          count_gelus),
      of_weights("gelu by the error function", {{5}}, {6, 5},
                 [](const Tensors& w, const at::Tensor& x) { return at::gelu(x * w[0]); }),
      of_module("convolution", nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(1)), {2, 2, 5, 5}),
      of_module("convolution and norm",
                nn::Sequential(nn::Conv1d(nn::Conv1dOptions(2, 3, 3)), nn::BatchNorm1d(3)),
                {2, 2, 5}),
  };
}

std::vector<Case> attention_cases() {
  const auto attention = [](std::string name, bool packed, bool causal,
                            std::optional<double> scale = {}) {
    return of_weights(
        std::move(name), {{6, 24}}, {2, 5, 6},
        [=](const Tensors& w, const at::Tensor& x) { return attend(w, x, packed, causal, scale); },
        count_attentions);
  };
  return {
      attention("packed attention", true, true),
      attention("attention of dense heads", false, true),
      attention("attention to all", true, false),
      attention("scaled attention", true, true, 0.7),
      of_weights(
          "shared heads", {{6, 8}, {6, 4}}, {2, 5, 6},
          [](const Tensors& w, const at::Tensor& x) {
            const at::Tensor k = heads_of(x.matmul(w[1]), 2);
            return at::scaled_dot_product_attention(heads_of(x.matmul(w[0]), 4), k, k, {}, 0, true,
                                                    {}, /*enable_gqa=*/true);
          },
          count_attentions),
      of_weights(
          "attention to others", {{6, 8}}, {2, 5, 6},
          [](const Tensors& w, const at::Tensor& x) {
            const at::Tensor q = heads_of(x.matmul(w[0]), 2), k = q.narrow(2, 0, 3);
            return at::scaled_dot_product_attention(q, k, k);
          },
          count_products),
      of_weights(
          "masked attention", {{6, 8}}, {2, 5, 6},
          [](const Tensors& w, const at::Tensor& x) {
            const at::Tensor q = heads_of(x.matmul(w[0]), 2);
            return at::scaled_dot_product_attention(q, q, q, at::ones({5, 5}, at::kBool).tril());
          },
          count_products),
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = product_cases();
  for (const auto& more : {row_cases(), attention_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

at::Tensor input_of(const Case& c, at::ScalarType dtype, std::uint64_t seed) {
  torch::manual_seed(seed);
  if (c.takes_ids) return at::randint(9, c.sizes, at::kLong);
  return at::randn(c.sizes, dtype);
}

/// Differs in each element, so that no error cancels.
at::Tensor uneven_loss(const at::Tensor& y) {
  const at::Tensor factors = at::arange(1, y.numel() + 1, y.options()).view(y.sizes());
  return ((y + 0.1 * y.square()) * (factors / static_cast<double>(y.numel() + 1))).sum();
}

Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
  return result;
}

/// Output, the input's gradient where it has one, and the parameters', by torch::autograd::grad.
Tensors differentiated(const Case& c, at::Tensor x) {
  Tensors inputs = c.model->parameters();
  if (!c.takes_ids) inputs.push_back(x.requires_grad_(true));
  const at::Tensor y = c.forward(x);
  Tensors result = torch::autograd::grad({uneven_loss(y)}, inputs);
  result.push_back(y);
  return detached(result);
}

/// The sums of two micro-batches, and of what `acc` takes.
Tensors window_sums(const Case& c, at::ScalarType dtype) {
  Accumulator acc(*c.model, {.on_event = [](const Event&) {}});
  for (const std::uint64_t seed : {11, 12})
    acc.backward(Loss{uneven_loss(c.forward(input_of(c, dtype, seed))), 1});
  Tensors sums;
  for (const at::Tensor& parameter : c.model->parameters())
    sums.push_back(kernels::slot_of(parameter)->main);
  sums = detached(sums);
  acc.discard();
  return sums;
}

void expect_close(const Tensors& actual, const Tensors& expected, double bound,
                  const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(testing::within(actual[i], expected[i], bound)) << name << ", tensor " << i;
}

double bound_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : tolerance(dtype).bound(kTerms);
}

TEST(Accelerate, GivesTheResultsAndGradientsOfEachOperation) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
    for (const Case& c : all_cases()) {
      c.model->to(dtype);
      const Tensors expected = differentiated(c, input_of(c, dtype, 10));
      const Accelerated accelerated = accelerate(c.model);
      const Tensors actual = differentiated(c, input_of(c, dtype, 10));
      expect_close(actual, expected, bound_of(dtype), c.name);
      EXPECT_EQ(
          c.replaced ? c.replaced(accelerated.calls()) > 0 : count_all(accelerated.calls()) == 0,
          true)
          << c.name;
    }
}

TEST(Accelerate, AddsUpWhatAWindowAddsUpWithoutIt) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
    for (const Case& c : all_cases()) {
      c.model->to(dtype);
      const Tensors expected = window_sums(c, dtype);
      const Accelerated accelerated = accelerate(c.model);
      expect_close(window_sums(c, dtype), expected, bound_of(dtype), c.name);
    }
}

TEST(Accelerate, SumsGradientsOfBf16InFp32) {
  for (const Case& c : product_cases()) {
    if (c.sizes[0] == 0) continue;
    c.model->to(at::kDouble);
    const Tensors exact = window_sums(c, at::kDouble);
    c.model->to(at::kBFloat16);
    const Accelerated accelerated = accelerate(c.model);
    const Tensors sums = window_sums(c, at::kBFloat16);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_LT(relative_error(sums[i], exact[i]), tolerance(at::kBFloat16).bound(kTerms))
          << c.name;
  }
}

TEST(Accelerate, AddsToSumsOfEveryPrecision) {
  for (const auto precision : {accum::Accumulation::fixed, accum::Accumulation::bf16_kahan}) {
    const Case c =
        of_module("layers",
                  nn::Sequential(nn::Linear(5, 8), nn::LayerNorm(nn::LayerNormOptions({8})),
                                 nn::Linear(8, 2)),
                  {6, 5}, count_products);
    const auto mean_gradients = [&] {
      Accumulator acc(*c.model, {.accumulate = precision});
      for (const std::uint64_t seed : {11, 12})
        acc.backward(Loss{uneven_loss(c.forward(input_of(c, at::kFloat, seed))), 1});
      Tensors gradients;
      acc.step([&](accum::MeanGradient&& mean) {
        mean.materialize();
        for (const at::Tensor& parameter : c.model->parameters())
          gradients.push_back(parameter.grad());
        gradients = detached(gradients);
      });
      return gradients;
    };
    const Tensors expected = mean_gradients();
    const Accelerated accelerated = accelerate(c.model);
    expect_close(mean_gradients(), expected, tolerance(at::kFloat).bound(kTerms), "a precision");
    EXPECT_GT(accelerated.calls().products, 0);
  }
}

TEST(Accelerate, TakesTorchScriptModules) {
  torch::jit::Module module("Network");
  const auto parameter = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    module.register_parameter(name, at::randn({rows, columns}, at::kDouble).requires_grad_(true),
                              false);
  };
  parameter("first", 5, 6);
  parameter("second", 4, 6);
  module.define(
      "def forward(self, x):\n"
      "  h = torch.tanh(torch.matmul(x, self.first))\n"
      "  return torch.matmul(h, self.second.t())\n");
  const at::Tensor x = at::randn({2, 3, 5}, at::kDouble);
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  const auto sums = [&] {
    Accumulator acc(module);
    acc.backward(Loss{uneven_loss(module.forward({x}).toTensor()), 1});
    const Tensors result =
        detached({module.attr("first").toTensor().grad(), module.attr("second").toTensor().grad()});
    acc.discard();
    return result;
  };
  const Tensors expected = sums();
  const Accelerated accelerated = accelerate(module);
  expect_close(sums(), expected, 1e-12, "TorchScript");
  EXPECT_EQ(accelerated.calls().products, 2);
}

TEST(Accelerate, IsToldApartFromAGradientThatLacksALittle) {
  const Case c = of_module("linear", nn::Linear(5, 7), {6, 5}, count_products);
  c.model->to(at::kDouble);
  const Tensors sums = window_sums(c, at::kDouble);
  EXPECT_FALSE(testing::within(sums[0] * (1 + 1e-11), sums[0], 1e-12));
  at::Tensor one_off = sums[0].clone();
  one_off[0][0] += sums[0].abs().max() * 1e-11;
  EXPECT_FALSE(testing::within(one_off, sums[0], 1e-12));
}

TEST(Accelerate, GivesSecondDerivatives) {
  for (const Case& c : all_cases()) {
    if (c.takes_ids || c.sizes[0] == 0) continue;
    c.model->to(at::kDouble);
    // Attention of libtorch's own has them in its plain form only.
    if (c.name.find("attention") != std::string::npos || c.name == "shared heads") continue;
    const auto penalty = [&] {
      at::Tensor x = input_of(c, at::kDouble, 5).requires_grad_(true);
      const at::Tensor slope = torch::autograd::grad({uneven_loss(c.forward(x))}, {x}, {}, true,
                                                     /*create_graph=*/true)[0];
      Tensors inputs = c.model->parameters();
      inputs.push_back(x);
      return detached(torch::autograd::grad({slope.square().sum()}, inputs, {}, {}, false, true));
    };
    const Tensors expected = penalty();
    const Accelerated accelerated = accelerate(c.model);
    const Tensors actual = penalty();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].defined(), expected[i].defined()) << c.name;
      if (expected[i].defined()) {
        EXPECT_LT(relative_error(actual[i], expected[i]), 1e-12) << c.name << ", tensor " << i;
      }
    }
  }
}

TEST(Accelerate, GivesSecondDerivativesOfAttention) {
  for (Case& c : attention_cases()) {
    c.model->to(at::kDouble);
    const Accelerated accelerated = accelerate(c.model);
    at::Tensor x = input_of(c, at::kDouble, 5).requires_grad_(true);
    if (c.name == "masked attention" || c.name == "attention to others") continue;
    const auto slope = [&](const at::Tensor& at) {
      return torch::autograd::grad({uneven_loss(c.forward(at))}, {at}, {}, true, true)[0];
    };
    const at::Tensor direction = at::randn_like(x);
    const at::Tensor exact = torch::autograd::grad({(slope(x) * direction).sum()}, {x})[0];
    const double step = 1e-5;
    const at::Tensor ahead = (x + step * direction).detach().requires_grad_(true);
    const at::Tensor behind = (x - step * direction).detach().requires_grad_(true);
    EXPECT_LT(relative_error(exact, (slope(ahead) - slope(behind)) / (2 * step)), 1e-7) << c.name;
  }
}

TEST(Accelerate, LeavesEvaluationToLibtorchToTheBit) {
  for (const Case& c : all_cases()) {
    c.model->to(at::kFloat);
    const at::NoGradGuard evaluation;
    const at::Tensor x = input_of(c, at::kFloat, 3), expected = c.forward(x);
    const Accelerated accelerated = accelerate(c.model);
    EXPECT_TRUE(at::equal(c.forward(x), expected)) << c.name;
    EXPECT_EQ(count_all(accelerated.calls()), 0) << c.name;
  }
}

TEST(Accelerate, LeavesFrozenWeightsAndOtherModelsToLibtorch) {
  nn::Linear frozen(5, 7), other(5, 7);
  frozen->weight.requires_grad_(false);
  const Accelerated accelerated = accelerate(frozen);
  const at::Tensor x = at::randn({6, 5}).requires_grad_(true);
  EXPECT_TRUE(frozen->forward(x).requires_grad());
  EXPECT_TRUE(other->forward(x).requires_grad());
  EXPECT_EQ(count_all(accelerated.calls()), 0);
  frozen->weight.requires_grad_(true);
  frozen->forward(x);
  EXPECT_EQ(count_all(accelerated.calls()), 1);
}

TEST(Accelerate, EndsWithItsScopeAndStaysOnItsThread) {
  nn::Linear model(5, 7), inner(5, 7);
  const at::Tensor x = at::randn({6, 5});
  const Accelerated outside = accelerate(model);
  {
    const Accelerated inside = accelerate(inner);
    model->forward(x);
    inner->forward(x);
    EXPECT_EQ(count_all(inside.calls()), 1);
  }
  EXPECT_EQ(count_all(outside.calls()), 1);
  inner->forward(x);
  std::thread([&] { model->forward(x); }).join();
  EXPECT_EQ(count_all(outside.calls()), 1);
  model->forward(x);
  EXPECT_EQ(count_all(outside.calls()), 2);
}

TEST(Accelerate, LeavesAutocastingToLibtorch) {
  nn::Linear model(5, 7);
  const at::Tensor x = at::randn({6, 5});
  const auto cast = [&] {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = model->forward(x);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return y;
  };
  const at::Tensor expected = cast();
  const Accelerated accelerated = accelerate(model);
  EXPECT_EQ(expected.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(cast(), expected));
  EXPECT_EQ(count_all(accelerated.calls()), 0);
}

TEST(Accelerate, ShowsGradientsToHooks) {
  nn::Linear model(5, 7);
  model->to(at::kDouble);
  const at::Tensor x = at::randn({6, 5}, at::kDouble);
  const auto sums = [&] {
    Accumulator acc(model);
    acc.backward(Loss{uneven_loss(model->forward(x)), 1});
    const Tensors result = detached({model->weight.grad(), model->bias.grad()});
    acc.discard();
    return result;
  };
  const Tensors plain = sums();
  model->weight.register_hook([](const at::Tensor& gradient) { return 3 * gradient; });
  const Accelerated accelerated = accelerate(model);
  expect_close(sums(), {3 * plain[0], plain[1]}, 1e-12, "a hook of a parameter");

  const auto by_transpose = [&] {
    Accumulator acc(model);
    const at::Tensor transposed = model->weight.t();
    transposed.register_hook([](const at::Tensor& gradient) { return 2 * gradient; });
    acc.backward(Loss{uneven_loss(at::addmm(model->bias, x, transposed)), 1});
    const at::Tensor sum = model->weight.grad().clone();
    acc.discard();
    return sum;
  };
  EXPECT_LT(relative_error(by_transpose(), 6 * plain[0]), 1e-12);
}

/// y = x, whose backward pass asks autograd for a gradient of its own: nobody's sum.
struct AsksInBackward : torch::autograd::Function<AsksInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            nn::Linear model) {
    context->saved_data["weight"] = model->weight;
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& grads) {
    const at::AutoGradMode on(true);
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor y = F::linear(at::ones({2, weight.size(1)}, weight.options()), weight);
    const at::Tensor asked = torch::autograd::grad({y.sum()}, {weight})[0];
    return {grads[0] * asked.mean(), {}};
  }
};

TEST(Accelerate, LeavesSumsAloneWhereABackwardPassAsksForGradients) {
  nn::Linear model(5, 7);
  model->to(at::kDouble);
  const at::Tensor x = at::randn({6, 5}, at::kDouble);
  const auto sums = [&] {
    Accumulator acc(model);
    acc.backward(Loss{uneven_loss(AsksInBackward::apply(model->forward(x), model)), 1});
    const Tensors result = detached({model->weight.grad(), model->bias.grad()});
    acc.discard();
    return result;
  };
  const Tensors expected = sums();
  const Accelerated accelerated = accelerate(model);
  expect_close(sums(), expected, 1e-12, "a gradient asked for in a backward pass");
}

TEST(Accelerate, TellsAnInputThatWasChangedInPlace) {
  nn::Linear model(5, 7);
  const Accelerated accelerated = accelerate(model);
  const at::Tensor x = at::randn({6, 5});
  const at::Tensor y = model->forward(x);
  x.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

/// Dropout of every kind that masks are keyed for.
struct DroppingImpl : nn::Module {
  DroppingImpl() {
    first = register_module("first", nn::Linear(4, 8));
    second = register_module("second", nn::Linear(8, 8));
  }
  at::Tensor forward(at::Tensor x) {  // [B, T, 4]
    x = at::dropout(first->forward(x), 0.3, is_training());
    x = at::feature_dropout(x, 0.3, is_training());
    const at::Tensor heads = heads_of(x, 2);
    x = at::scaled_dot_product_attention(heads, heads, heads, {}, is_training() ? 0.3 : 0.0, true)
            .transpose(1, 2)
            .flatten(0, 1);                                           // [B * T, 2, 4]
    x = at::dropout(x.flatten(1), 0.3, is_training());                // equal shares of the first
    x = second->forward(x).view({-1, 9, 8}).transpose(0, 1).clone();  // [T, B, 8]
    at::dropout_(x, 0.3, is_training());
    return x.transpose(0, 1);
  }
  nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Dropping);

/// The sums of a window of 7 samples, in micro-batches of at most `micro`.
Tensors sums_of_split(Dropping& model, Accelerated& accelerated, std::int64_t micro,
                      bool with_ids) {
  torch::manual_seed(8);
  const at::Tensor x = at::randn({7, 9, 4}, at::kDouble);
  Accumulator acc(model);
  for (std::int64_t begin = 0; begin < 7; begin += micro) {
    const at::Tensor slice = x.slice(0, begin, begin + micro);
    std::vector<std::int64_t> ids;
    for (std::int64_t row = 0; row < slice.size(0); ++row) ids.push_back(begin + row);
    if (with_ids) accelerated.begin(ids);
    acc.backward(Loss{model->forward(slice).square().sum(), 1});
  }
  Tensors sums;
  for (const at::Tensor& parameter : model->parameters()) sums.push_back(parameter.grad());
  sums = detached(sums);
  acc.discard();
  return sums;
}

TEST(Accelerate, DropsTheSameWhateverTheSplit) {
  Dropping model;
  model->to(at::kDouble);
  Accelerated accelerated = accelerate(model, {.seed = 5});
  const Tensors whole = sums_of_split(model, accelerated, 7, true);
  for (const std::int64_t micro : {1, 2, 4, 6})
    expect_close(sums_of_split(model, accelerated, micro, true), whole, 1e-12,
                 "micro-batches of " + std::to_string(micro));
  EXPECT_EQ(accelerated.calls().dropouts % 4, 0);
  EXPECT_GT(accelerated.calls().attentions, 0);
  accelerated.begin({});
  const Tensors drawn = sums_of_split(model, accelerated, 7, false);
  EXPECT_GT(relative_error(sums_of_split(model, accelerated, 4, false)[0], drawn[0]), 1e-3);
  Accelerated other = accelerate(model, {.seed = 6});
  EXPECT_GT(relative_error(sums_of_split(model, other, 7, true)[0], whole[0]), 1e-3);
}

TEST(Accelerate, KeepsTheShareThatDropoutStates) {
  nn::Linear model(2, 2);
  Accelerated accelerated = accelerate(model, {.seed = 1});
  std::vector<std::int64_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  for (const std::int64_t window : {0, 1}) {
    accelerated.begin(ids, window);
    const at::Tensor y = at::dropout(at::ones({100, 40, 50}), 0.25, true);
    const double kept = y.ne(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 0.75, 5 * std::sqrt(0.25 * 0.75 / 200'000));
    EXPECT_FLOAT_EQ(y.max().item<float>(), 1 / 0.75F);
    const at::Tensor again = at::dropout(at::ones({100, 40, 50}), 0.25, true);
    EXPECT_FALSE(at::equal(again, y));  // another place in the same pass
    accelerated.begin(ids, window);
    EXPECT_TRUE(at::equal(at::dropout(at::ones({100, 40, 50}), 0.25, true), y));
  }
}

TEST(Accelerate, TakesItsSeedFromLibtorchsGenerator) {
  nn::Linear model(2, 2);
  const auto drawn = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    Accelerated accelerated = accelerate(model);
    accelerated.begin({0, 1});
    return at::dropout(at::ones({2, 64}), 0.5, true);
  };
  EXPECT_TRUE(at::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
}

}  // namespace
}  // namespace accrue
