#include "models/foreign/torchscript_graph.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "accrue/core/error.h"
#include "models/foreign/script_method.h"

namespace accrue::models {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

constexpr const char* black_box = "a TorchScript module runs as a whole";

bool is_one_tensor(const c10::TypePtr& type) { return type->isSubtypeOf(*c10::TensorType::get()); }

std::string example_of(const std::vector<std::string>& names) {
  return "loss.heads = [{name = \"...\", output = \"" +
         (names.empty() ? std::string("logits") : names.front()) +
         "\", target = \"labels\"}], or loss.method where the module makes its loss itself";
}

/// Whether the graph fixes a layer to evaluation mode, like a layer traced in that mode.
bool is_fixed_to_evaluation(const Node& node, std::size_t place) {
  if (node.inputs().size() <= place) return false;
  const auto training = torch::jit::toIValue(node.input(place));
  return training && training->isBool() && !training->toBool();
}

bool is_batch_norm(const Node& node) {
  const std::string kind = node.kind().toUnqualString();
  return kind.find("batch_norm") != std::string::npos && !is_fixed_to_evaluation(node, 5);
}

/// A dropout's probability, if the graph states it.
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

void check_outputs(const ScriptMethod& forward, const std::vector<std::string>& outputs,
                   const std::string& origin) {
  const c10::TypePtr& type = forward.result();
  const std::vector<std::string> names = output_names(type);
  const bool is_dict = type->kind() == c10::TypeKind::DictType;
  for (const std::string& output : outputs) {
    if (output.empty() ? is_one_tensor(type) : is_dict) continue;
    if (std::ranges::find(names, output) != names.end()) continue;
    throw usage_error(
        "load " + origin,
        output.empty() ? "a forward that returns one Tensor, the logits"
                       : "a forward with an output \"" + output + '"',
        forward.signature(),
        is_one_tensor(type) ? "loss.heads without output: there is one" : example_of(names));
  }
}

std::vector<ForeignLayer> layers_in_graph(const torch::jit::Module& module,
                                          const std::string& method) {
  const std::shared_ptr<torch::jit::Graph> graph = module.get_method(method).graph()->copy();
  torch::jit::Inline(*graph);
  std::vector<ForeignLayer> found;
  look(*graph->block(), found);
  return found;
}

}  // namespace accrue::models
