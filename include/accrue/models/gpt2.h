#pragma once

#include <cstdint>
#include <memory>

#include "accrue/models/trainable.h"

namespace accrue::models {

enum class Compute { fp32, bf16, fp64 };

struct Gpt2Options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;    ///< a multiple of `heads`
  std::int64_t context = 1024;
  std::int64_t vocab = 50'257;
  double dropout = 0;
  Compute compute = Compute::fp32;  ///< bf16 is mixed: masters and the residual stream in fp32
  std::uint64_t seed = 1337;        ///< of the initialisation
};

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm,
/// learned positions, tanh GELU, the head tied to the token embedding. Parameters carry the names
/// of Hugging Face's GPT2LMHeadModel ("transformer.wte.weight", ...), but matrices are stored as
/// [out, in]; safetensors in and out are transposed (gpt2_io.h).
/// Initialised as GPT-2: N(0, 0.02), output projections of a block by 0.02 / sqrt(2 * layers), keyed by
/// parameter, so the values do not depend on the order of creation.
class Gpt2 : public Trainable {
 public:
  /// Throws a usage Error where the options are out of range, naming the option.
  explicit Gpt2(const Gpt2Options& options);
  ~Gpt2() override;

  NamedParameters parameters() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;

  /// Logits [B, vocab] of the last position, fp32 (fp64 model: fp64); no gradient. ids [B, T], T <= context.
  at::Tensor next_token_logits(const at::Tensor& ids);

  const Gpt2Options& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
