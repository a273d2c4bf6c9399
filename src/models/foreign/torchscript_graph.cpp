#include "models/foreign/torchscript_graph.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

constexpr const char* black_box = "a TorchScript module runs as a whole";

bool takes_one_tensor(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();  // the first is the module itself
  if (arguments.size() < 2 || !arguments[1].type()->isSubtypeOf(*c10::TensorType::get()))
    return false;
  for (std::size_t i = 2; i < arguments.size(); ++i)
    if (!arguments[i].default_value()) return false;
  return true;
}

bool returns_one_tensor(const c10::FunctionSchema& schema) {
  return schema.returns().size() == 1 &&
         schema.returns()[0].type()->isSubtypeOf(*c10::TensorType::get());
}

std::string text_of(const c10::FunctionSchema& schema) {
  std::ostringstream text;
  text << schema;
  return text.str();
}

/// Whether the graph says that a layer stays in evaluation mode, as a layer traced there does.
bool is_fixed_to_evaluation(const Node& node, std::size_t place) {
  if (node.inputs().size() <= place) return false;
  const auto training = torch::jit::toIValue(node.input(place));
  return training && training->isBool() && !training->toBool();
}

bool is_batch_norm(const Node& node) {
  const std::string kind = node.kind().toUnqualString();
  return kind.find("batch_norm") != std::string::npos && !is_fixed_to_evaluation(node, 5);
}

/// A dropout's probability, where the graph states it.
std::optional<double> constant_probability(const Node& node) {
  const int place =
      node.kind().toUnqualString() == std::string("scaled_dot_product_attention") ? 4 : 1;
  if (static_cast<int>(node.inputs().size()) <= place) return std::nullopt;
  const auto value = torch::jit::toIValue(node.input(static_cast<std::size_t>(place)));
  if (!value || !value->isDouble()) return std::nullopt;
  return value->toDouble();
}

bool is_dropout(const Node& node) {
  const std::string kind = node.kind().toUnqualString();
  const bool drops = kind.find("dropout") != std::string::npos ||
                     kind == "scaled_dot_product_attention" || kind.starts_with("bernoulli");
  return drops && !is_fixed_to_evaluation(node, 2) && constant_probability(node).value_or(1) > 0;
}

/// Whether accrue has masks for it (kernels/accelerate.h).
bool can_be_keyed(const Node& node) {
  constexpr std::array known{"dropout", "dropout_", "feature_dropout", "feature_dropout_",
                             "scaled_dot_product_attention"};
  return std::ranges::find(known, std::string_view(node.kind().toUnqualString())) != known.end();
}

void look(const Block& block, std::vector<ForeignLayer>& found) {
  for (const Node* node : block.nodes()) {
    const std::string name = node->kind().toQualString();
    if (is_batch_norm(*node))
      found.push_back({ForeignLayer::Kind::batch_norm, name, black_box});
    else if (is_dropout(*node))
      found.push_back({ForeignLayer::Kind::dropout, name, black_box, can_be_keyed(*node)});
    for (const Block* inner : node->blocks()) look(*inner, found);
  }
}

}  // namespace

void check_signature(const torch::jit::Module& module, const std::string& origin) {
  const char* expected = "forward(inputs: Tensor) -> Tensor, the logits";
  const auto method = module.find_method("forward");
  if (!method)
    throw usage_error("load " + origin, expected, "a module without forward",
                      "scripting or tracing a module that has one");
  const c10::FunctionSchema& schema = method->function().getSchema();
  if (takes_one_tensor(schema) && returns_one_tensor(schema)) return;
  throw usage_error("load " + origin, expected, text_of(schema),
                    "wrapping the module in one whose forward has this signature");
}

std::vector<ForeignLayer> layers_in_graph(const torch::jit::Module& module) {
  const std::shared_ptr<torch::jit::Graph> graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  std::vector<ForeignLayer> found;
  look(*graph->block(), found);
  return found;
}

}  // namespace accrue::models
