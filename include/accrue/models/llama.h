#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"
#include "accrue/kernels/linear.h"
#include "accrue/models/adapter_options.h"
#include "accrue/models/base_format.h"
#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/language_model.h"
#include "accrue/models/loss_options.h"

namespace accrue::models {

/// The change of the rotary frequencies for contexts longer than in the first training.
enum class RotaryScaling {
  none,
  linear,  ///< all divided by `factor` (Chen et al., arXiv:2306.15595)
  llama3,  ///< slow ones divided, those between mixed (arXiv:2407.21783, section 3.4.2)
  yarn,    ///< by a ramp over the channels (Peng et al., arXiv:2309.00071)
};
/// The words of config.json.
inline constexpr auto rotary_scaling_words =
    enum_words<RotaryScaling>({{RotaryScaling::none, "default"},
                               {RotaryScaling::linear, "linear"},
                               {RotaryScaling::llama3, "llama3"},
                               {RotaryScaling::yarn, "yarn"}});

/// Rotary position embedding (Su et al., arXiv:2104.09864).
struct RotaryOptions {
  double base = 10'000;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;                ///< of all scalings
  double original_context = 8'192;  ///< of llama3 and yarn: positions before the scaling
  double low_frequency = 1;         ///< of llama3: turns in the original context, below divided
  double high_frequency = 4;        ///< of llama3: and above kept
  double beta_fast = 32;            ///< of yarn: turns in the original context, above kept
  double beta_slow = 1;             ///< of yarn: and below divided
  bool whole_channels = true;       ///< of yarn: the ramp begins and ends at whole channels
  double amplitude = 1;             ///< of yarn: the factor of cosines and sines

  bool operator==(const RotaryOptions&) const = default;
};

/// The differences between model families, except shapes. The defaults are those of Llama 3.2.
struct LlamaVariant {
  static constexpr double most_logit_soft_cap = 40;

  bool tied_head = true;          ///< the head's weight is the embedding's
  bool qkv_bias = false;          ///< as in Qwen 2
  bool output_bias = false;       ///< of attention's output projection
  bool qk_norm = false;           ///< queries and keys are normalised per head: Qwen 3, Gemma 3
  bool post_norms = false;        ///< outputs of a block's parts are normalised: Gemma 2 and 3
  bool offset_norms = false;      ///< norms multiply by 1 + weight: Gemma
  bool scaled_embedding = false;  ///< embeddings are multiplied by sqrt(width): Gemma
  double norm_eps = 1e-5;
  kernels::GateActivation activation = kernels::GateActivation::silu;
  /// The number of keys that a query sees in local layers, including its own; 0: all.
  std::int64_t window = 0;
  /// Whether each layer is local; empty: all are, if there is a window.
  std::vector<bool> local_layers = {};
  double attention_soft_cap = 0;  ///< Gemma 2; 0: none
  double logit_soft_cap = 0;      ///< Gemma 2; at most most_logit_soft_cap; 0: none
  double query_scalar = 0;        ///< scores are divided by its root; 0: the width of a head
  RotaryOptions rotary = {};
  std::optional<RotaryOptions> local_rotary = {};  ///< of local layers: Gemma 3

  bool operator==(const LlamaVariant&) const = default;
  bool is_local(std::int64_t layer) const {
    return window > 0 && (local_layers.empty() || local_layers.at(static_cast<std::size_t>(layer)));
  }
};

struct LlamaOptions {
  std::int64_t layers = 12;
  std::int64_t heads = 12;      ///< of queries
  std::int64_t kv_heads = 0;    ///< of keys and values, a divisor of `heads`; 0: as many
  std::int64_t head_width = 0;  ///< even; 0: width / heads
  std::int64_t width = 768;
  std::int64_t ffn_width = 0;  ///< 0: 8/3 of the width, rounded up to a multiple of 64
  std::int64_t context = 1024;
  std::int64_t vocab = 32'000;
  LlamaVariant variant = {};
  double dropout = 0;
  LossOptions loss = {};
  /// Whether the loss is computed in chunks of rows, instead of from complete logits.
  bool fused_loss = true;
  Compute compute = Compute::fp32;  ///< bf16 is mixed: masters and the residual stream in fp32
  std::uint64_t seed = 1337;        ///< of the initialisation
  /// The Hugging Face config.json from which shape and variant were read, if any: a saved folder
  /// keeps its other keys (llama_io.h).
  std::string config_json = {};
  AdapterOptions adapters = {};
  BaseFormat base = BaseFormat::as_stored;  ///< of linear layers, if there are adapters
};

/// Llama (Touvron et al., arXiv:2302.13971) and related models, by LlamaVariant: Llama 2 and 3,
/// SmolLM, Mistral, Qwen 2 and 3, Gemma 1 to 3 (text). Pre-norm with RMS norms, rotary positions,
/// grouped queries, a gated feed-forward part. Parameters have the names and layouts of Hugging
/// Face's ("model.layers.0.self_attn.q_proj.weight", matrices [out, in]). Initialised N(0, 0.02),
/// projections that add to the residual stream by 0.02 / sqrt(2 * layers), biases 0 and norms'
/// factors 1, keyed by parameter name, so the values do not depend on the order of creation. An
/// fp64 model has the values of the fp32 model. The tables of cosines and sines hold the fp32
/// values of transformers, at any precision.
///
/// Segments: "embed", "block.0" ... "block.<layers-1>" (residual stream to residual stream), "head"
/// (the last norm). Dropout sites (kernels/dropout.h): 0 after the embedding; in block i 1 + 3i in
/// the attention probabilities, 2 + 3i after the attention part, 3 + 3i after the feed-forward
/// part; from 1 + 3 * layers on at the adapters, seven per block. Packed micro-batches give the
/// result of separate samples; rows may then be longer than the context, but samples may not.
class Llama : public LanguageModel {
 public:
  /// Throws a usage Error naming the option ("model.width") if one is out of range.
  explicit Llama(const LlamaOptions& options,
                 Initialisation initialisation = Initialisation::random);
  ~Llama() override;

  NamedParameters parameters() const override;
  std::vector<std::string> shared_parameters() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;
  std::optional<std::vector<at::Tensor>> prepare_recorded_pass() override;

  std::string kind() const override { return "llama"; }
  /// Counts 6 operations per token and parameter (4 for a frozen one, none for an embedding that is
  /// only looked up), and 12 * heads * head_width per layer for each pair of a query and a key that
  /// the masks allow.
  std::int64_t flops_per_sample() const override;
  std::int64_t packed_weight_bytes() const override;
  void pack_weights(bool wanted) override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  std::int64_t context() const override { return options().context; }
  std::int64_t vocab() const override { return options().vocab; }
  at::Tensor next_token_logits(const at::Tensor& ids) override;
  at::Tensor sequence_log_probabilities(const batch::MicroBatch& micro) override;
  DecodingCache make_decoding_cache() const override;
  at::Tensor decode(const at::Tensor& ids, DecodingCache& cache) override;
  const AdapterOptions& adapters() const override { return options().adapters; }
  void restart_adapters() override;

  /// The options of the model; those that were 0 for a default are resolved.
  const LlamaOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns `options` with kv_heads, head_width and ffn_width resolved.
LlamaOptions with_usual_widths(LlamaOptions options);

/// The number of elements of all parameters of a Llama with these options, counting a tied head
/// once and without adapters.
std::int64_t parameter_count(const LlamaOptions& options);

}  // namespace accrue::models
