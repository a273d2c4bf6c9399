#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/models/gpt2.h"
#include "support/reference_mask.h"

namespace accrue::models::testing {

/// A second GPT-2 in plain ATen and fp64, written from the paper's formulas and sharing no code
/// with accrue: it computes full logits, attention is a masked softmax, gradients are autograd's.
/// Rows hold one sample each.
class ReferenceGpt2 {
 public:
  /// Applies the model's dropout, as in training under `context`, at all sites except `without`.
  void drop(const ForwardContext& context, std::int64_t without = -1) {
    context_ = context;
    without_ = without;
  }

  explicit ReferenceGpt2(const Gpt2& model) : options_(model.options()) {
    for (const auto& [name, tensor] : model.parameters()) {
      names_.push_back(name);
      values_[name] = tensor.detach().to(at::kDouble).clone().set_requires_grad(true);
    }
  }

  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = at::embedding(at_("wte.weight"), ids) +
                   at_("wpe.weight").slice(0, 0, ids.size(1)).unsqueeze(0);
    x = x * kept(0, x);
    for (std::int64_t i = 0; i < options_.layers; ++i) {
      const std::string h = "h." + std::to_string(i) + '.';
      const at::Tensor a = attention(h + "attn.", norm(h + "ln_1", x), 1 + 3 * i);
      x = x + a * kept(2 + 3 * i, a);
      const at::Tensor hidden = at::gelu(project(h + "mlp.c_fc", norm(h + "ln_2", x)), "tanh");
      const at::Tensor m = project(h + "mlp.c_proj", hidden);
      x = x + m * kept(3 + 3 * i, m);
    }
    return at::matmul(norm("ln_f", x), at_("wte.weight").t());
  }

  /// The sum over labels that count, each multiplied by its weight.
  at::Tensor loss(const batch::MicroBatch& micro) const {
    const at::Tensor scores = at::log_softmax(logits(micro.inputs), -1);
    const at::Tensor losses =
        at::nll_loss(scores.flatten(0, 1), micro.targets.flatten(), {}, at::Reduction::None, -100);
    return micro.weights.defined() ? (losses * micro.weights.flatten()).sum() : losses.sum();
  }

  /// In the model's order.
  std::vector<at::Tensor> gradients(const batch::MicroBatch& micro) const {
    std::vector<at::Tensor> leaves;
    for (const std::string& name : names_) leaves.push_back(values_.at(name));
    return torch::autograd::grad({loss(micro)}, leaves);
  }

 private:
  const at::Tensor& at_(const std::string& name) const { return values_.at("transformer." + name); }

  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor variance = (centred * centred).mean(-1, true);
    return centred / (variance + 1e-5).sqrt() * at_(name + ".weight") + at_(name + ".bias");
  }

  at::Tensor project(const std::string& name, const at::Tensor& x) const {
    return at::matmul(x, at_(name + ".weight").t()) + at_(name + ".bias");
  }

  bool drops_at(std::int64_t site) const { return context_.training && site != without_; }

  /// Dropout factors for x [B, T, C].
  at::Tensor kept(std::int64_t site, const at::Tensor& x) const {
    if (!drops_at(site)) return at::ones_like(x);
    const accrue::testing::ReferenceMask mask(options_.dropout, context_, site);
    std::vector<at::Tensor> rows;
    for (const std::int64_t sample : context_.sample_ids)
      rows.push_back(mask.of_sample(sample, x.size(1), x.size(2)));
    return at::stack(rows);
  }

  /// Dropout factors for probabilities [B, heads, T, T].
  at::Tensor kept_keys(std::int64_t site, const at::Tensor& probabilities) const {
    if (!drops_at(site)) return at::ones_like(probabilities);
    const accrue::testing::ReferenceMask mask(options_.dropout, context_, site);
    const std::int64_t length = probabilities.size(2);
    std::vector<at::Tensor> heads;
    for (const std::int64_t sample : context_.sample_ids)
      for (std::int64_t head = 0; head < options_.heads; ++head)
        heads.push_back(mask.of_head(sample, head, length, length));
    return at::stack(heads).view_as(probabilities);
  }

  at::Tensor attention(const std::string& name, const at::Tensor& x, std::int64_t site) const {
    const std::int64_t rows = x.size(0), length = x.size(1);
    const auto split = [&](const at::Tensor& part) {
      return part.reshape({rows, length, options_.heads, -1}).transpose(1, 2);
    };
    const auto parts = project(name + "c_attn", x).split(options_.width, -1);
    const at::Tensor q = split(parts[0]), k = split(parts[1]), v = split(parts[2]);
    at::Tensor scores =
        at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
    const at::Tensor future =
        at::ones({length, length}, at::TensorOptions().dtype(at::kBool)).triu(1);
    scores = at::softmax(scores.masked_fill(future, -INFINITY), -1);
    scores = scores * kept_keys(site, scores);
    return project(name + "c_proj", at::matmul(scores, v).transpose(1, 2).flatten(2, 3));
  }

  Gpt2Options options_;
  ForwardContext context_{.training = false};
  std::int64_t without_ = -1;
  std::vector<std::string> names_;
  std::map<std::string, at::Tensor> values_;
};

}  // namespace accrue::models::testing
