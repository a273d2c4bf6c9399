// Passes over a run's state that lies in a file.
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "accum/finite_sums.h"
#include "accum/staged.h"
#include "allocator_fixture.h"
#include "optim/windows.h"
#include "support/skip.h"

namespace accrue::memory {
namespace {

using accum::Accumulation;

/// Offloads the tensors that are made during its lifetime, if `offloads` is set.
class Offloading {
 public:
  explicit Offloading(bool offloads) {
    if (offloads) scope_.emplace(std::filesystem::current_path());
  }

 private:
  std::optional<OffloadScope> scope_;
};

class OffloadedState : public AllocatorTest {
 protected:
  void SetUp() override {
    AllocatorTest::SetUp();
    try {
      const Offloading offloading(true);
    } catch (const Error& error) {
      return testing::not_possible_here(error.what());
    }
  }
};

TEST_F(OffloadedState, IsZeroWhenItIsMade) {
  const MemoryTagScope tag(MemoryTag::optimizer);
  const Offloading offloading(true);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor made = zeros({300'000}, at::kFloat);
    EXPECT_TRUE(is_offloaded(made));
    EXPECT_EQ(made.count_nonzero().item<std::int64_t>(), 0);
    made.fill_(1);  // memory that is taken again is zero as well
  }
}

TEST_F(OffloadedState, IsReadInPiecesThatCoverIt) {
  const MemoryTagScope tag(MemoryTag::optimizer);
  const at::Tensor resident = zeros({kPieceElements + 5}, at::kByte);
  const Offloading offloading(true);
  const at::Tensor offloaded = zeros({kPieceElements + 5}, at::kByte);
  using Pieces = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto pieces_of = [](const at::Tensor& tensor) {
    Pieces pieces;
    for_pieces(tensor,
               [&](std::int64_t begin, std::int64_t count) { pieces.emplace_back(begin, count); });
    return pieces;
  };
  EXPECT_EQ(pieces_of(resident), (Pieces{{0, kPieceElements + 5}}));
  EXPECT_EQ(pieces_of(offloaded), (Pieces{{0, kPieceElements}, {kPieceElements, 5}}));
}

double norm_of(const at::Tensor& contribution, Accumulation accumulation, bool offloads) {
  const Offloading offloading(offloads);
  testing::StagedWindow w(accumulation, contribution.sizes());
  EXPECT_EQ(is_offloaded(w.buffer->flat().front()), offloads);
  w.window.open(0);
  w.add(contribution);
  EXPECT_TRUE(accum::sums_are_finite(*w.buffer));
  const double norm = w.window.close().value().norm();
  w.slot().main.view({-1})[-1].fill_(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(accum::sums_are_finite(*w.buffer));
  return norm;
}

TEST_F(OffloadedState, ANormHasTheBitsOfResidentSums) {
  at::manual_seed(7);
  const at::Tensor contribution = at::randn({kPieceElements + 70'003});
  for (const Accumulation accumulation : {Accumulation::fp32, Accumulation::bf16_kahan})
    EXPECT_EQ(norm_of(contribution, accumulation, true), norm_of(contribution, accumulation, false))
        << to_string(accumulation);
}

TEST_F(OffloadedState, AWindowBeginsWithoutTheSumsOfTheLastOne) {
  constexpr std::int64_t elements = 300'000;
  const Offloading offloading(true);
  for (const Accumulation accumulation : {Accumulation::fp32, Accumulation::bf16_kahan}) {
    testing::StagedWindow w(accumulation, {elements});
    w.window.open(0);
    w.add(at::ones({elements}));
    ASSERT_TRUE(w.window.close());
    EXPECT_EQ(w.sum().sum().item<double>(), elements);
    w.window.open(1);
    EXPECT_EQ(w.buffer->flat().front().count_nonzero().item<std::int64_t>(), 0);
    w.add(at::full({elements}, 2, at::kFloat));
    w.add(at::full({elements}, 4, at::kFloat));
    EXPECT_EQ(w.sum().sum().item<double>(), 6 * elements) << to_string(accumulation);
  }
}

NamedParameters make_parameters() {
  // The state of the large one is more than one group of the optimizer's pass.
  const std::vector<std::pair<const char*, std::vector<std::int64_t>>> shapes{
      {"matrix", {300, 301}}, {"large", {4'500, 1'001}}, {"bias", {37}}, {"other", {400, 99}}};
  NamedParameters parameters;
  for (const auto& [name, shape] : shapes) {
    const at::Tensor values =
        optim::testing::random_tensor(shape, at::kFloat, parameters.size() + 1);
    const MemoryTagScope tag(MemoryTag::parameters);
    parameters.push_back({name, values.clone().set_requires_grad(true)});
  }
  return parameters;
}

/// The parameters and the optimizer's state after two steps, in memory.
std::vector<at::Tensor> after_steps(optim::StatePrecision precision, Accumulation accumulation,
                                    bool offloads) {
  const Offloading offloading(offloads);
  const NamedParameters parameters = make_parameters();
  optim::testing::Windows windows(parameters, accumulation);
  const auto optimizer = optim::make_adam(parameters, optim::testing::groups_of(parameters, 0.1),
                                          {}, {.precision = precision, .seed = 3, .slice = {}});
  for (std::int64_t index = 0; index < 2; ++index) {
    accum::MeanGradient gradient = windows.mean(index);
    gradient.clip(0.5);
    optimizer->step(std::move(gradient), 0.01);
  }
  leave_memory();
  std::vector<at::Tensor> after;
  const auto take = [&](const at::Tensor& tensor) {
    EXPECT_EQ(is_offloaded(tensor), offloads && tensor.nbytes() > 65'536) << tensor.sizes();
    after.push_back(tensor.detach().clone());
  };
  for (const NamedParameter& parameter : parameters) take(parameter.tensor);
  for (const NamedParameter& state : optimizer->state()) take(state.tensor);
  return after;
}

void expect_the_bits_of_resident_ones(optim::StatePrecision precision, Accumulation accumulation) {
  const std::vector<at::Tensor> offloaded = after_steps(precision, accumulation, true),
                                resident = after_steps(precision, accumulation, false);
  ASSERT_EQ(offloaded.size(), resident.size());
  for (std::size_t i = 0; i < resident.size(); ++i)
    EXPECT_TRUE(at::equal(offloaded[i], resident[i])) << "tensor " << i;
}

TEST_F(OffloadedState, StepsHaveTheBitsOfResidentState) {
  expect_the_bits_of_resident_ones(optim::StatePrecision::fp32, Accumulation::fp32);
}

TEST_F(OffloadedState, StepsHaveTheBitsOfResidentCodesAndStagedSums) {
  expect_the_bits_of_resident_ones(optim::StatePrecision::int8, Accumulation::bf16_kahan);
}

}  // namespace
}  // namespace accrue::memory
