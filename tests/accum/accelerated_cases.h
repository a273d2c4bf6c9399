#pragma once

#include <ATen/core/Tensor.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/kernels/accelerate.h"
#include "accrue/kernels/grad_slot.h"
#include "support/tolerance.h"

/// Parts of models' forward passes that accrue may replace, and their gradients.
namespace accrue::accelerated {

using Tensors = std::vector<at::Tensor>;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

inline constexpr std::int64_t kTerms = 500;  ///< more terms than any element of a sum below has

/// A possible forward of a user, as a function of its input, and the model with its parameters.
struct Case {
  std::string name;
  std::shared_ptr<nn::Module> model;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<std::int64_t> sizes;                                     ///< of the input
  std::function<std::int64_t(const AcceleratedCalls&)> replaced = {};  ///< null: nothing is
  bool takes_ids = false;
};

inline std::int64_t count_products(const AcceleratedCalls& calls) { return calls.products; }
inline std::int64_t count_norms(const AcceleratedCalls& calls) { return calls.layer_norms; }
inline std::int64_t count_embeddings(const AcceleratedCalls& calls) { return calls.embeddings; }
inline std::int64_t count_gelus(const AcceleratedCalls& calls) { return calls.gelus; }
inline std::int64_t count_attentions(const AcceleratedCalls& calls) { return calls.attentions; }
/// libtorch's recurrent layers are products in fp64, and one operation of oneDNN in fp32.
inline std::int64_t in_some_dtypes(const AcceleratedCalls& /*calls*/) { return 1; }
inline std::int64_t count_all(const AcceleratedCalls& calls) {
  return calls.products + calls.convolutions + calls.layer_norms + calls.embeddings + calls.gelus +
         calls.attentions + calls.dropouts;
}

struct Weights : nn::Module {
  explicit Weights(const std::vector<std::vector<std::int64_t>>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      w.push_back(register_parameter("w" + std::to_string(i), torch::randn(sizes[i]) * 0.3));
  }
  Tensors w;
};

template <class Holder>
inline Case of_module(std::string name, Holder module, std::vector<std::int64_t> sizes,
                      std::function<std::int64_t(const AcceleratedCalls&)> replaced = {},
                      bool takes_ids = false) {
  return {std::move(name),
          module.ptr(),
          [module](const at::Tensor& x) mutable { return module->forward(x); },
          std::move(sizes),
          std::move(replaced),
          takes_ids};
}

inline Case of_weights(std::string name, const std::vector<std::vector<std::int64_t>>& weights,
                       std::vector<std::int64_t> sizes,
                       std::function<at::Tensor(const Tensors&, const at::Tensor&)> forward,
                       std::function<std::int64_t(const AcceleratedCalls&)> replaced = {}) {
  auto model = std::make_shared<Weights>(weights);
  return {std::move(name), model,
          [model, forward](const at::Tensor& x) { return forward(model->w, x); }, std::move(sizes),
          std::move(replaced)};
}

/// [B, T, heads * W] as [B, heads, T, W].
inline at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

inline at::Tensor attend(const Tensors& w, const at::Tensor& x, bool packed, bool causal,
                         std::optional<double> scale) {
  Tensors parts = x.matmul(w[0]).chunk(3, 2);
  for (at::Tensor& part : parts) part = packed ? heads_of(part, 2) : heads_of(part, 2).contiguous();
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, causal, scale)
      .transpose(1, 2)
      .flatten(2);
}

inline std::vector<Case> product_cases() {
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

inline std::vector<Case> row_cases() {
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
  };
}

/// oneDNN computes weight gradients of convolutions only in fp32.
inline std::vector<Case> convolution_cases() {
  const auto by_pixels = [](const std::string& name, nn::Conv2d module) {
    return Case{name,
                module.ptr(),
                [module](const at::Tensor& x) mutable {
                  return module->forward(x.contiguous(at::MemoryFormat::ChannelsLast));
                },
                {2, 4, 6, 5},
                in_some_dtypes};
  };
  return {
      of_module("convolution of images", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(1)),
                {2, 4, 6, 5}, in_some_dtypes),
      by_pixels("convolution by pixels", nn::Conv2d(nn::Conv2dOptions(4, 16, 3).padding(1))),
      by_pixels("convolution of single pixels", nn::Conv2d(nn::Conv2dOptions(4, 16, 1))),
      of_module("convolution with steps",
                nn::Conv2d(nn::Conv2dOptions(4, 6, {3, 2}).stride({2, 1}).dilation({1, 2})),
                {2, 4, 7, 6}, in_some_dtypes),
      of_module("convolution without bias", nn::Conv2d(nn::Conv2dOptions(4, 16, 1).bias(false)),
                {2, 4, 6, 5}, in_some_dtypes),
      of_weights(
          "convolution by one number for both", {{6, 4, 3, 3}, {6}}, {2, 4, 6, 5},
          [](const Tensors& w, const at::Tensor& x) { return at::conv2d(x, w[0], w[1], 2, 1); },
          in_some_dtypes),
      of_module("grouped convolution", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).groups(2)),
                {2, 4, 6, 5}, in_some_dtypes),
      of_module("convolution of each channel", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).groups(4)),
                {2, 4, 6, 5}, in_some_dtypes),
      of_module("transposed convolution",
                nn::ConvTranspose2d(
                    nn::ConvTranspose2dOptions(4, 6, 3).stride(2).padding(1).output_padding(1)),
                {2, 4, 3, 4}, in_some_dtypes),
      of_module(
          "transposed convolution of more pixels",
          nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 6, 3).dilation(2).output_padding(1)),
          {2, 4, 3, 4}, in_some_dtypes),
      of_module("grouped transposed convolution",
                nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 6, 2).stride(2).groups(2)),
                {2, 4, 3, 4}, in_some_dtypes),
      of_module("convolution of lines", nn::Conv1d(nn::Conv1dOptions(4, 6, 3)), {2, 4, 7},
                in_some_dtypes),
      of_module("convolution of volumes", nn::Conv3d(nn::Conv3dOptions(3, 4, 2)), {2, 3, 3, 4, 3},
                in_some_dtypes),
      of_module("convolution of one image", nn::Conv2d(nn::Conv2dOptions(4, 6, 3)), {4, 6, 5},
                in_some_dtypes),
      // The gradient of a bias before the norm would be nothing but rounding.
      of_module(
          "convolution and norm",
          nn::Sequential(nn::Conv1d(nn::Conv1dOptions(2, 3, 3).bias(false)), nn::BatchNorm1d(3)),
          {2, 2, 5}, in_some_dtypes),
  };
}

inline std::vector<Case> attention_cases() {
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

inline std::vector<Case> all_cases() {
  std::vector<Case> cases = product_cases();
  for (const auto& more : {row_cases(), convolution_cases(), attention_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

inline at::Tensor input_of(const Case& c, at::ScalarType dtype, std::uint64_t seed) {
  torch::manual_seed(seed);
  if (c.takes_ids) return at::randint(9, c.sizes, at::kLong);
  return at::randn(c.sizes, at::kDouble).to(dtype);
}

/// Differs in each element, so that no error cancels.
inline at::Tensor uneven_loss(const at::Tensor& y) {
  const at::Tensor factors = at::arange(1, y.numel() + 1, y.options()).view(y.sizes());
  return ((y + 0.1 * y.square()) * (factors / static_cast<double>(y.numel() + 1))).sum();
}

inline Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
  return result;
}

/// Output, the input's gradient if it has one, and the parameters', by torch::autograd::grad.
inline Tensors differentiated(const Case& c, at::Tensor x) {
  Tensors inputs = c.model->parameters();
  if (!c.takes_ids) inputs.push_back(x.requires_grad_(true));
  const at::Tensor y = c.forward(x);
  Tensors result = torch::autograd::grad({uneven_loss(y)}, inputs);
  result.push_back(y);
  return detached(result);
}

/// The sums of two micro-batches in `dtype`, of inputs rounded to `rounded`.
inline Tensors window_sums(const Case& c, at::ScalarType dtype, at::ScalarType rounded) {
  Accumulator acc(*c.model, {.on_event = [](const Event&) {}});
  for (const std::uint64_t seed : {11, 12}) {
    const at::Tensor x = input_of(c, rounded, seed);
    acc.backward(Loss{uneven_loss(c.forward(c.takes_ids ? x : x.to(dtype))), 1});
  }
  Tensors sums;
  for (const at::Tensor& parameter : c.model->parameters())
    sums.push_back(kernels::slot_of(parameter)->main);
  sums = detached(sums);
  acc.discard();
  return sums;
}
inline Tensors window_sums(const Case& c, at::ScalarType dtype) {
  return window_sums(c, dtype, dtype);
}

inline void expect_close(const Tensors& actual, const Tensors& expected, double bound,
                         const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(testing::within(actual[i], expected[i], bound)) << name << ", tensor " << i;
}

inline double bound_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : testing::tolerance(dtype).bound(kTerms);
}

}  // namespace accrue::accelerated
