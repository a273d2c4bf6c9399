#include "train/measure/gemm_shapes.h"

namespace accrue::train {
namespace {

void add_linear(std::vector<GemmShape>& shapes, std::int64_t tokens, std::int64_t in,
                std::int64_t out, std::int64_t count) {
  shapes.push_back({tokens, out, in, count});
  shapes.push_back({tokens, in, out, count});
  shapes.push_back({out, in, tokens, count});
}

}  // namespace

std::vector<GemmShape> gemm_shapes(const ModelConfig& model, std::int64_t tokens) {
  if (model.kind != ModelKind::gpt2 && model.kind != ModelKind::vit) return {peak_shape};
  std::vector<GemmShape> shapes;
  const std::int64_t width = model.width;
  add_linear(shapes, tokens, width, 3 * width, model.layers);
  add_linear(shapes, tokens, width, width, model.layers);
  add_linear(shapes, tokens, width, 4 * width, model.layers);
  add_linear(shapes, tokens, 4 * width, width, model.layers);
  add_linear(shapes, tokens, width, *model.vocab, 1);
  return shapes;
}

}  // namespace accrue::train
