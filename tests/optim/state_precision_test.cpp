#include "accrue/optim/state_precision.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "accrue/kernels/kernel_choice.h"
#include "accrue/optim/optimizer.h"
#include "optim/dynamic_code.h"
#include "optim/kept_state.h"
#include "optim/state_passes.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using testing::groups_of;
using ::testing::HasSubstr;
using testing::random_tensor;
using testing::usage_message;

// 8-bit codes.

/// Values over twelve orders of magnitude, with zeros, in blocks and a tail.
std::vector<float> spread_values(std::size_t count, bool with_sign) {
  const auto size = static_cast<std::int64_t>(count);
  at::Tensor values = at::exp(4 * random_tensor({size}, at::kDouble, 1));
  if (with_sign) values = values * at::sign(random_tensor({size}, at::kDouble, 2));
  values = (values * 1e-4).to(at::kFloat);
  for (std::int64_t i = 0; i < size; i += 97) values[i] = 0;
  const float* data = values.const_data_ptr<float>();
  return {data, data + count};
}

struct Coded {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, decoded;
};

Coded code(const std::vector<float>& values, bool with_sign) {
  Coded result{std::vector<std::uint8_t>(values.size()),
               std::vector<float>((values.size() + kStateBlock - 1) / kStateBlock),
               std::vector<float>(values.size())};
  (with_sign ? encode_signed : encode_unsigned)(values.data(), values.size(), result.codes.data(),
                                                result.scales.data());
  decode_codes(result.codes.data(), result.scales.data(),
               (with_sign ? kSignedValues : kUnsignedValues).data(), values.size(),
               result.decoded.data());
  return result;
}

/// Half an interval of the decade that contains |value|, relative to the block's largest; from the
/// definition of the code, in double.
double half_interval(double value, double largest, bool with_sign) {
  const double top = with_sign ? 1 - 0.45 / 64 : 1 - 0.45 / 128;
  const double place = std::abs(value) / largest * top;
  int decade = 0;
  for (double lower = 1e-6; decade < 6 && place >= lower; lower *= 10) ++decade;
  const double intervals = std::ldexp(with_sign ? 1 : 2, decade);
  const double half = 0.45 * std::pow(10, decade - 6) / intervals;
  // Below the first decade the nearest code is zero, or the smallest one.
  const double first = with_sign ? 0.55e-6 : 0.325e-6;
  return (place < 1e-7 ? first : half) / top * largest;
}

class DynamicCodes : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Signs, DynamicCodes, ::testing::Bool());

TEST_P(DynamicCodes, AreWithinHalfAnIntervalOfTheirDecade) {
  const bool with_sign = GetParam();
  const std::vector<float> values = spread_values(20 * kStateBlock + 77, with_sign);
  const Coded coded = code(values, with_sign);
  double tightest = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const std::size_t end = std::min(begin + kStateBlock, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i)
      largest = std::max(largest, std::abs(double{values[i]}));
    for (std::size_t i = begin; i < end; ++i) {
      const double error = std::abs(double{coded.decoded[i]} - double{values[i]});
      const double bound = half_interval(values[i], largest, with_sign);
      ASSERT_LE(error, bound * (1 + 1e-4)) << i << ": " << values[i];
      tightest = std::max(tightest, error / bound);
      const bool is_exact = values[i] == 0 || std::abs(values[i]) == largest;
      ASSERT_LE(error, is_exact ? 1e-6 * largest : largest);
    }
  }
  // The control: the bound is not looser than necessary.
  EXPECT_GT(tightest, 0.98);
}

TEST_P(DynamicCodes, AreTheSameForWhatTheyStandFor) {
  const bool with_sign = GetParam();
  const Coded once = code(spread_values(8 * kStateBlock, with_sign), with_sign);
  EXPECT_EQ(code(once.decoded, with_sign).codes, once.codes);
}

/// docs/numerics.md: half of the smallest code, on the documented scale.
TEST(DynamicCodes, RoundSmallFirstMomentsToZeroAndSecondOnesUp) {
  const std::vector<float> values{kLargestSigned, 2.6e-7F, 2.9e-7F, -2.6e-7F, -2.9e-7F};
  const std::vector<float> decoded = code(values, true).decoded;
  EXPECT_EQ(decoded[1], 0);
  EXPECT_FLOAT_EQ(decoded[2], 0.55e-6F);
  EXPECT_EQ(decoded[3], 0);
  EXPECT_FLOAT_EQ(decoded[4], -0.55e-6F);
  EXPECT_FLOAT_EQ(code({kLargestUnsigned, 1e-12F}, false).decoded[1], 0.325e-6F);
}

TEST(DynamicCodes, HaveTheValuesOfThePaper) {
  // Means of the intervals that 2^i + 1 points cut [0.1, 1] into, times 10^(i - 6).
  EXPECT_FLOAT_EQ(kSignedValues[kSignedZero + 1], 0.55e-6f);
  EXPECT_FLOAT_EQ(kSignedValues[kSignedZero + 2], 0.325e-5f);
  EXPECT_FLOAT_EQ(kSignedValues[kSignedZero + 3], 0.775e-5f);
  EXPECT_FLOAT_EQ(kSignedValues[kSignedZero + 127], 0.99296875f);
  EXPECT_FLOAT_EQ(kUnsignedValues[1], 0.325e-6f);
  EXPECT_FLOAT_EQ(kUnsignedValues[254], 0.996484375f);
  EXPECT_TRUE(std::is_sorted(kSignedValues.begin(), kSignedValues.begin() + 255));
  EXPECT_TRUE(std::is_sorted(kUnsignedValues.begin(), kUnsignedValues.begin() + 255));
}

TEST(DynamicCodes, OfASecondMomentAreZeroOnlyForZero) {
  std::vector<float> values(kStateBlock, 0);
  values[0] = 1;
  values[1] = 1e-30f;
  const Coded squares = code(values, false);
  EXPECT_GT(squares.decoded[1], 0);
  EXPECT_EQ(squares.decoded[2], 0);
  // The control: with signs, values that are closer to zero become zero.
  EXPECT_EQ(code(values, true).decoded[1], 0);
}

TEST(DynamicCodes, TakeABlockBelowTheLeastNormalFloatForZero) {
  const std::vector<float> values(kStateBlock, 1e-40f);
  for (const bool with_sign : {false, true})
    for (const float value : code(values, with_sign).decoded) EXPECT_EQ(value, 0);
}

/// On devices they are computed with ATen's operators.
TEST(KeptStates, HaveTheSameBitsByAten) {
  const RoundingStream stream = rounding_stream(3, 1, {5, 6, 7, 8});
  const std::int64_t several_chunks = (1 << 21) + 300;
  for (const std::int64_t size : {std::int64_t{4096}, std::int64_t{5003}, several_chunks})
    for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8})
      for (const StateSign sign : {StateSign::any, StateSign::not_negative}) {
        const at::Tensor parameter = at::zeros({size});
        std::vector<float> drawn =
            spread_values(static_cast<std::size_t>(size), sign == StateSign::any);
        const at::Tensor values = at::tensor(drawn);
        for (const auto& range :
             {std::optional<ElementRange>(), std::optional(ElementRange{512, 2999})}) {
          const KeptState native(parameter, sign, precision, range),
              generic(parameter, sign, precision, range);
          const at::Tensor given = range ? values.narrow(0, range->begin, range->elements) : values;
          const auto kept_by = [&](kernels::Kernels kernels, const KeptState& state) {
            const kernels::KernelScope scope(kernels);
            state.assign(given, stream);
            return state.whole();
          };
          const at::Tensor expected = kept_by(kernels::Kernels::native, native),
                           actual = kept_by(kernels::Kernels::generic, generic);
          EXPECT_TRUE(at::equal(actual, expected)) << size << ' ' << to_string(precision);
          EXPECT_TRUE(at::equal(generic.values(), native.values()));
          EXPECT_FALSE(at::equal(actual, given)) << "nothing was rounded";
        }
      }
}

// bf16.

constexpr RoundingStream kStream{{11, 22}, {33, 44}};

std::vector<std::uint16_t> rounded(const std::vector<float>& values, const RoundingStream& stream) {
  std::vector<std::uint16_t> bits(values.size());
  encode_bf16(values.data(), values.size(), stream, 0, bits.data());
  return bits;
}

TEST(StochasticBf16, RoundsUpWithTheProbabilityOfTheRemainder) {
  constexpr std::size_t kCount = 1 << 18;
  const float lower = 1.0f, upper = 1.0f + 0x1p-7f;
  for (const double share : {0.1, 0.5, 0.9}) {
    const auto value = static_cast<float>(lower + share * (upper - lower));
    std::size_t up = 0;
    for (const std::uint16_t bits : rounded(std::vector<float>(kCount, value), kStream)) {
      const auto kept = std::bit_cast<float>(std::uint32_t{bits} << 16);
      ASSERT_TRUE(kept == lower || kept == upper);
      up += kept == upper;
    }
    const double sigma = std::sqrt(share * (1 - share) / kCount);
    EXPECT_NEAR(static_cast<double>(up) / kCount, share, 6.5 * sigma);
    // The control: the bound distinguishes shares that nearest rounding does not.
    EXPECT_GT(std::abs(std::round(share) - share), share == 0.5 ? 0.4 : 6.5 * sigma);
  }
}

TEST(StochasticBf16, DependsOnTheElementAndTheStreamAlone) {
  const std::vector<float> values = spread_values(1'000, true);
  const std::vector<std::uint16_t> whole = rounded(values, kStream);
  std::vector<std::uint16_t> parts(values.size());
  encode_bf16(values.data(), 384, kStream, 0, parts.data());
  encode_bf16(values.data() + 384, values.size() - 384, kStream, 384, parts.data() + 384);
  EXPECT_EQ(parts, whole);
  EXPECT_NE(rounded(values, {{11, 22}, {33, 45}}), whole);
  EXPECT_NE(rounded(values, {{12, 22}, {33, 44}}), whole);
}

// Optimizers.

NamedParameters large_and_small() {
  NamedParameters parameters{{"w", random_tensor({70, 90}, at::kFloat, 1)},
                             {"b", random_tensor({90}, at::kFloat, 2)}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_(true);
  return parameters;
}

TEST(OptimizerStatePrecision, KeepsWhatItSays) {
  const NamedParameters parameters = large_and_small();
  const auto groups = groups_of(parameters, 0);
  const auto kept = [&](StatePrecision precision) {
    return make_adam(parameters, groups, {}, {.precision = precision});
  };
  EXPECT_EQ(kept(StatePrecision::fp32)->state_bytes(), 2 * 4 * (6'300 + 90));
  EXPECT_EQ(kept(StatePrecision::bf16)->state_bytes(), 2 * 2 * (6'300 + 90));
  // One code per element, one scale per 256; the small tensor stays in fp32.
  EXPECT_EQ(kept(StatePrecision::int8)->state_bytes(), 2 * (6'300 + 25 * 4) + 2 * 4 * 90);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : kept(StatePrecision::int8)->state()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("step", "exp_avg.w", "exp_avg_scale.w", "exp_avg.b",
                                            "exp_avg_sq.w", "exp_avg_sq_scale.w", "exp_avg_sq.b"));
}

TEST(OptimizerStatePrecision, IsRefusedForParametersInDouble) {
  const NamedParameters parameters = testing::make_parameters(at::kDouble);
  for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8})
    EXPECT_THAT(usage_message([&] {
                  make_sgd(parameters, groups_of(parameters, 0), {}, {.precision = precision});
                }),
                HasSubstr("Double"));
}

struct KeptKind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const NamedParameters&, const StateOptions&)> make;
};
const std::vector<KeptKind>& kept_kinds() {
  static const std::vector<KeptKind> all{
      {"adam", [](const NamedParameters& p,
                  const StateOptions& s) { return make_adam(p, groups_of(p, 0.1), {}, s); }},
      {"sgd", [](const NamedParameters& p,
                 const StateOptions& s) { return make_sgd(p, groups_of(p, 0.1), {}, s); }},
      {"rmsprop",
       [](const NamedParameters& p, const StateOptions& s) {
         return make_rmsprop(p, groups_of(p, 0.1), {.momentum = 0.5}, s);
       }},
  };
  return all;
}

std::vector<at::Tensor> values_of(const NamedParameters& parameters) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : parameters) values.push_back(tensor.detach().clone());
  return values;
}

/// Parameters after six steps; `restart` loads a copied state into a new optimizer after three.
std::vector<at::Tensor> after_six_steps(const KeptKind& kind, const StateOptions& state,
                                        bool restart) {
  const NamedParameters parameters = testing::make_parameters(at::kFloat);
  testing::Windows windows(parameters);
  std::unique_ptr<Optimizer> optimizer = kind.make(parameters, state);
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step == 3 && restart) {
      NamedParameters saved;
      for (const auto& [name, tensor] : optimizer->state()) saved.push_back({name, tensor.clone()});
      optimizer = kind.make(parameters, state);
      optimizer->load_state(saved);
    }
    optimizer->step(windows.mean(step), 0.01);
  }
  return values_of(parameters);
}

/// With a parameter that is not contiguous, and sizes that no block divides.
TEST(OptimizerStatePrecision, ContinuesToTheBit) {
  for (const KeptKind& kind : kept_kinds())
    for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8}) {
      const StateOptions state{.precision = precision, .seed = 5};
      const auto whole = after_six_steps(kind, state, false);
      const auto resumed = after_six_steps(kind, state, true);
      const auto plain = after_six_steps(kind, {}, false);
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_TRUE(at::equal(resumed[i], whole[i])) << kind.name << ' ' << i;
      // The controls: it differs from fp32's state, and bf16's rounding depends on the seed.
      EXPECT_FALSE(at::equal(plain.back(), whole.back())) << kind.name;
      if (precision == StatePrecision::bf16) {
        EXPECT_FALSE(at::equal(after_six_steps(kind, {precision, 6}, false).back(), whole.back()));
      }
    }
}

/// A step errs within the state's precision: after one step from zero moments only the moments are
/// rounded, and the parameters are those of fp32's state to the bit.
TEST(OptimizerStatePrecision, RoundsWhatIsKeptAndNotTheStepItself) {
  for (const KeptKind& kind : kept_kinds())
    for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8}) {
      const NamedParameters exact = testing::make_parameters(at::kFloat);
      const NamedParameters rounded = testing::make_parameters(at::kFloat);
      testing::Windows exact_windows(exact), rounded_windows(rounded);
      const auto reference = kind.make(exact, {});
      const auto tested = kind.make(rounded, {.precision = precision});
      reference->step(exact_windows.mean(0), 0.01);
      tested->step(rounded_windows.mean(0), 0.01);
      for (std::size_t i = 0; i < exact.size(); ++i)
        EXPECT_TRUE(at::equal(exact[i].tensor, rounded[i].tensor)) << kind.name << exact[i].name;
    }
}

}  // namespace
}  // namespace accrue::optim
