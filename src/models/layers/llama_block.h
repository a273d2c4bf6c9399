#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/kernels/key_value_cache.h"
#include "accrue/kernels/norm.h"
#include "accrue/models/llama.h"
#include "models/layers/projection.h"
#include "models/layers/rotary_tables.h"

namespace accrue::models {

struct RmsNorm {
  at::Tensor weight;  ///< undefined: no norm
  kernels::RmsNormOptions options = {};

  explicit operator bool() const { return weight.defined(); }
  at::Tensor operator()(const at::Tensor& x, at::ScalarType out,
                        const ForwardContext& context) const;
};

/// The parameter `name`.weight [width], with which the norm changes no magnitude at first.
RmsNorm make_rms_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                      const LlamaVariant& variant);

/// A block of Llama: y = x + attention(norm(x)), then y + mlp(norm(y)), where the outputs of
/// attention and mlp may be normalised as well. Dropout is on the attention weights and after
/// either part, at `first_site` and the two sites after it.
struct LlamaBlock {
  RmsNorm before_attention;
  Projection q, k, v;
  RmsNorm q_norm, k_norm;  ///< by head; perhaps none
  Projection attention_out;
  RmsNorm after_attention;  ///< perhaps none
  RmsNorm before_mlp;
  Projection gate, up, down;
  RmsNorm after_mlp;  ///< perhaps none
  bool is_local = false;

  /// `rotary` are this layer's tables, from x's first position on; `activations` the dtype of GEMM
  /// inputs. With a `cache` the positions of x follow those in it, and are appended; no gradient.
  at::Tensor operator()(const at::Tensor& x, const LlamaOptions& options,
                        const RotaryTables& rotary, at::ScalarType activations,
                        const ForwardContext& context, std::int64_t first_site,
                        kernels::KeyValueCache* cache = nullptr);
  std::vector<Projection*> projections() { return {&q, &k, &v, &attention_out, &gate, &up, &down}; }

 private:
  at::Tensor attend(const at::Tensor& x, const at::Tensor& normalised, const LlamaOptions& options,
                    const RotaryTables& rotary, const ForwardContext& context, std::int64_t site,
                    kernels::KeyValueCache* cache);
  at::Tensor feed_forward(const at::Tensor& x, const LlamaOptions& options,
                          const ForwardContext& context, const kernels::Remake& remake_x);
};

/// The usual widths in `options` are stated (with_usual_widths).
LlamaBlock make_llama_block(ParameterBuilder& builder, const LlamaOptions& options,
                            std::int64_t index);

}  // namespace accrue::models
