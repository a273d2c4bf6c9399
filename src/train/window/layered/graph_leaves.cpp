#include "train/window/layered/graph_leaves.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <unordered_set>

namespace accrue::train {

std::vector<at::Tensor> trained_leaves(const std::vector<at::Tensor>& roots) {
  using torch::autograd::AccumulateGrad;
  using torch::autograd::Edge;
  std::vector<Edge> found;  // an edge keeps its node, which a leaf does not
  std::unordered_set<const torch::autograd::Node*> seen;
  const auto add = [&](const Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) found.push_back(edge);
  };
  for (const at::Tensor& root : roots)
    if (root.defined() && root.requires_grad()) add(torch::autograd::impl::gradient_edge(root));
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Edge edge = found[i];
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get()))
      leaves.push_back(leaf->variable);
    for (const Edge& next : edge.function->next_edges()) add(next);
  }
  return leaves;
}

}  // namespace accrue::train
