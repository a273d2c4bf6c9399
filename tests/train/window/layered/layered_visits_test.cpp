// What a layered window reports about its segments, and the parameters in autograd's graph.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "train/window/layered/graph_leaves.h"
#include "train/window/layered/layered_fixture.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

/// The places of `leaves` among `known`; -1 for another tensor.
std::vector<int> places_in(const std::vector<at::Tensor>& known,
                           const std::vector<at::Tensor>& leaves) {
  std::vector<int> places;
  for (const at::Tensor& leaf : leaves) {
    const auto found =
        std::ranges::find_if(known, [&](const at::Tensor& tensor) { return tensor.is_same(leaf); });
    places.push_back(found == known.end() ? -1 : static_cast<int>(found - known.begin()));
  }
  return places;
}

TEST(TrainedLeaves, AreTheLeavesOfTheGraphEachOnce) {
  const at::Tensor a = at::ones({2}).requires_grad_(true);
  const at::Tensor b = at::ones({2}).requires_grad_(true);
  const at::Tensor frozen = at::ones({2});
  const std::vector<at::Tensor> known{a, b, frozen};
  const at::Tensor product = a * b * frozen;
  const at::Tensor sum = product.sum() + a.sum();
  EXPECT_THAT(places_in(known, trained_leaves({sum})), UnorderedElementsAre(0, 1));
  EXPECT_THAT(places_in(known, trained_leaves({a.sum(), product})), UnorderedElementsAre(0, 1));
  EXPECT_THAT(places_in(known, trained_leaves({b})), ElementsAre(1)) << "a leaf is a root itself";
  EXPECT_TRUE(trained_leaves({frozen, a.detach(), at::Tensor()}).empty());
  torch::autograd::backward({sum});
  EXPECT_THAT(places_in(known, trained_leaves({sum})), UnorderedElementsAre(0, 1)) << "after it";
}

/// A visit in the words of a test.
std::string in_words(const SegmentVisit& visit) {
  const auto word = [](bool backward, std::size_t segment) {
    return std::string(backward ? "b" : "f") + std::to_string(segment);
  };
  return word(visit.backward, visit.segment) + " then " +
         (visit.next ? word(visit.next_backward, *visit.next) : "none");
}

struct Visited {
  std::vector<std::string> visits;
  std::map<std::size_t, std::vector<std::string>> parameters;  ///< by segment
  int reports = 0;                                             ///< of parameters
};

/// A window of a GPT-2 with two blocks: embed, block.0, block.1, head.
Visited run_tied_gpt2() {
  const std::unique_ptr<models::Trainable> model = testing::tied_gpt2();
  const data::Loader loader(std::make_shared<testing::LayeredText>(),
                            batch::Sampler(testing::kLayeredSamples, batch::Order::sequential, 0));
  accum::Window window(std::make_shared<accum::GradientBuffer>(model->parameters()));
  Visited visited;
  LayeredOptions options;
  options.before_segment = [&](const SegmentVisit& visit) {
    visited.visits.push_back(in_words(visit));
  };
  options.on_parameters = [&](std::size_t segment, const std::vector<at::Tensor>& leaves) {
    ++visited.reports;
    for (const at::Tensor& leaf : leaves)
      for (const NamedParameter& parameter : model->parameters())
        if (parameter.tensor.is_same(leaf)) visited.parameters[segment].push_back(parameter.name);
    std::size_t known = 0;
    for (const NamedParameter& parameter : model->parameters())
      for (const at::Tensor& leaf : leaves) known += parameter.tensor.is_same(leaf) ? 1 : 0;
    EXPECT_EQ(known, leaves.size()) << "the inputs of segment " << segment << " are left out";
  };
  LayeredWindow layered(
      *model, window, [&](batch::Range range) { return loader.fetch(range); }, 1, options);
  window.open(testing::kLayeredWindow);
  layered.run(testing::kLayeredWindow, testing::five_micro_batches().micro_batches);
  window.discard();
  return visited;
}

TEST(LayeredVisits, NameTheSegmentAndTheOneAfterIt) {
  EXPECT_THAT(run_tied_gpt2().visits,
              ElementsAre("f0 then f1", "f1 then f2", "f2 then b3", "b3 then b2", "b2 then b1",
                          "b1 then b0", "b0 then none"));
}

TEST(LayeredVisits, ReportTheParametersOfEachSegmentOnce) {
  Visited visited = run_tied_gpt2();
  EXPECT_EQ(visited.reports, 4);
  EXPECT_THAT(visited.parameters[0],
              UnorderedElementsAre("transformer.wte.weight", "transformer.wpe.weight"));
  EXPECT_THAT(visited.parameters[3],
              UnorderedElementsAre("transformer.wte.weight", "transformer.ln_f.weight",
                                   "transformer.ln_f.bias"));
  EXPECT_THAT(visited.parameters[1], Contains("transformer.h.0.mlp.c_proj.weight"));
  EXPECT_THAT(visited.parameters[2], Contains("transformer.h.1.mlp.c_proj.weight"));
  EXPECT_THAT(visited.parameters[2], Not(Contains("transformer.wte.weight")));
}

}  // namespace
}  // namespace accrue::train
