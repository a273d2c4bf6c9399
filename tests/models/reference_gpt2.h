#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/models/gpt2.h"

namespace accrue::models::testing {

/// GPT-2 once more in plain ATen and fp64, written from the paper's formulas and sharing no code
/// with accrue: logits are whole, attention is a masked softmax, gradients are autograd's.
class ReferenceGpt2 {
 public:
  explicit ReferenceGpt2(const Gpt2& model) : options_(model.options()) {
    for (const auto& [name, tensor] : model.parameters()) {
      names_.push_back(name);
      values_[name] = tensor.detach().to(at::kDouble).clone().set_requires_grad(true);
    }
  }

  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = at::embedding(at_("wte.weight"), ids) +
                   at_("wpe.weight").slice(0, 0, ids.size(1)).unsqueeze(0);
    for (std::int64_t i = 0; i < options_.layers; ++i) {
      const std::string h = "h." + std::to_string(i) + '.';
      x = x + attention(h + "attn.", norm(h + "ln_1", x));
      const at::Tensor hidden = at::gelu(project(h + "mlp.c_fc", norm(h + "ln_2", x)), "tanh");
      x = x + project(h + "mlp.c_proj", hidden);
    }
    return at::matmul(norm("ln_f", x), at_("wte.weight").t());
  }

  /// The sum over labels that count.
  at::Tensor loss(const batch::MicroBatch& micro) const {
    const at::Tensor scores = at::log_softmax(logits(micro.inputs), -1);
    return at::nll_loss(scores.flatten(0, 1), micro.targets.flatten(), {}, at::Reduction::Sum,
                        -100);
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

  at::Tensor attention(const std::string& name, const at::Tensor& x) const {
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
    return project(name + "c_proj", at::matmul(scores, v).transpose(1, 2).flatten(2, 3));
  }

  Gpt2Options options_;
  std::vector<std::string> names_;
  std::map<std::string, at::Tensor> values_;
};

}  // namespace accrue::models::testing
