#include "train/pass/chain_run.h"

namespace accrue::train {
namespace {

using models::Activations;
using models::Segment;

/// Whether a new group begins at segment `i` > 0.
bool begins_group(const std::vector<Segment>& segments, std::size_t i, Recompute recompute) {
  switch (recompute) {
    case Recompute::full:
      return segments[i].begins_block;
    case Recompute::selective:
      return segments[i].cheap_graph || segments[i - 1].cheap_graph;
    case Recompute::none:
      return false;
  }
  return false;
}

/// Backward through one segment; gradients may be undefined if an output was not used.
void backward_of(const Activations& output, const Activations& gradients) {
  std::vector<at::Tensor> roots, upstream;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (!gradients[i].defined() || !output[i].requires_grad()) continue;
    roots.push_back(output[i]);
    upstream.push_back(gradients[i]);
  }
  if (!roots.empty()) torch::autograd::backward(roots, upstream);
}

}  // namespace

Activations as_leaves(const Activations& activations) {
  Activations leaves;
  for (const at::Tensor& tensor : activations)
    leaves.push_back(tensor.detach().requires_grad_(true));
  return leaves;
}

bool any_defined(const Activations& gradients) {
  return std::ranges::any_of(gradients, [](const at::Tensor& t) { return t.defined(); });
}

Activations gradients_of(const Activations& leaves) {
  Activations gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

ChainRun::ChainRun(std::vector<Segment> segments, const batch::MicroBatch& micro,
                   const ForwardContext& context, Recompute recompute, Backward backward)
    : segments_(std::move(segments)),
      micro_(micro),
      context_(context),
      groups_(split(segments_, recompute, backward)) {
  context_.recompute = recompute;
}

std::vector<ChainRun::RecomputeGroup> ChainRun::split(const std::vector<Segment>& segments,
                                                      Recompute recompute, Backward backward) {
  std::vector<RecomputeGroup> groups;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i == 0 || begins_group(segments, i, recompute))
      groups.push_back({.begin = i,
                        .end = i,
                        .rerun = recompute == Recompute::full || segments[i].cheap_graph,
                        .input = {},
                        .cuts = {}});
    ++groups.back().end;
  }
  if (!groups.empty() && backward == Backward::at_once) groups.back().rerun = false;
  if (recompute == Recompute::none)
    for (RecomputeGroup& group : groups) group.rerun = false;
  return groups;
}

Activations ChainRun::forward(Activations input) {
  Activations activations = std::move(input);
  for (RecomputeGroup& group : groups_)
    activations =
        group.rerun ? run_without_graph(group, activations) : run_with_graph(group, activations);
  return activations;
}

Activations ChainRun::run_without_graph(RecomputeGroup& group, const Activations& input) const {
  const at::NoGradGuard no_grad;
  group.input = input;
  Activations activations = input;
  for (std::size_t i = group.begin; i < group.end; ++i)
    activations = models::run_segment(segments_[i], activations, micro_, context_);
  return activations;
}

Activations ChainRun::run_with_graph(RecomputeGroup& group, const Activations& input) const {
  Activations activations = input;
  for (std::size_t i = group.begin; i < group.end; ++i) {
    Cut cut{.input = as_leaves(activations), .output = {}};
    cut.output = models::run_segment(segments_[i], cut.input, micro_, context_of(group, i));
    activations = cut.output;
    group.cuts.push_back(std::move(cut));
  }
  return activations;
}

ForwardContext ChainRun::context_of(const RecomputeGroup& group, std::size_t segment) const {
  ForwardContext context = context_;
  context.rerun = group.rerun;
  context.result_unread = group.rerun && segment + 1 == group.end;
  return context;
}

Activations ChainRun::backward(Activations gradients) {
  while (!groups_.empty() && any_defined(gradients)) {
    RecomputeGroup group = std::move(groups_.back());
    groups_.pop_back();
    if (group.rerun) run_with_graph(group, std::exchange(group.input, {}));
    while (!group.cuts.empty() && any_defined(gradients)) {
      const Cut cut = std::move(group.cuts.back());
      group.cuts.pop_back();
      backward_of(cut.output, gradients);
      gradients = gradients_of(cut.input);
    }
  }
  return gradients;
}

}  // namespace accrue::train
