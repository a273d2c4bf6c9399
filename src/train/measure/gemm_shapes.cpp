#include "train/measure/gemm_shapes.h"

#include "accrue/models/llama.h"
#include "train/workload/model_factory.h"

namespace accrue::train {
namespace {

void add_linear(std::vector<GemmShape>& shapes, std::int64_t tokens, std::int64_t in,
                std::int64_t out, std::int64_t count) {
  shapes.push_back({tokens, out, in, count});
  shapes.push_back({tokens, in, out, count});
  shapes.push_back({out, in, tokens, count});
}

std::vector<GemmShape> llama_gemm_shapes(const ModelConfig& model, std::int64_t tokens) {
  const models::LlamaOptions shape = models::with_usual_widths(llama_shape(model));
  const std::int64_t queries = shape.heads * shape.head_width,
                     keys = shape.kv_heads * shape.head_width;
  std::vector<GemmShape> shapes;
  add_linear(shapes, tokens, shape.width, queries, shape.layers);
  add_linear(shapes, tokens, shape.width, keys, 2 * shape.layers);
  add_linear(shapes, tokens, queries, shape.width, shape.layers);
  add_linear(shapes, tokens, shape.width, shape.ffn_width, 2 * shape.layers);
  add_linear(shapes, tokens, shape.ffn_width, shape.width, shape.layers);
  add_linear(shapes, tokens, shape.width, shape.vocab, 1);
  return shapes;
}

}  // namespace

std::vector<GemmShape> gemm_shapes(const ModelConfig& model, std::int64_t tokens) {
  if (model.kind == ModelKind::llama) return llama_gemm_shapes(model, tokens);
  if (model.kind != ModelKind::gpt2 && model.kind != ModelKind::vit) return {peak_shape};
  std::vector<GemmShape> shapes;
  const std::int64_t width = model.width, ffn_width = model.ffn_width.value_or(4 * width);
  add_linear(shapes, tokens, width, 3 * width, model.layers);
  add_linear(shapes, tokens, width, width, model.layers);
  add_linear(shapes, tokens, width, ffn_width, model.layers);
  add_linear(shapes, tokens, ffn_width, width, model.layers);
  add_linear(shapes, tokens, width, *model.vocab, 1);
  return shapes;
}

}  // namespace accrue::train
