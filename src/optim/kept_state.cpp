#include "optim/kept_state.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "kernels/backend.h"
#include "kernels/generic/stochastic_rounding.h"
#include "optim/dynamic_code.h"
#include "optim/state_passes.h"
#include "optim/state_tensors.h"

namespace accrue::optim {
namespace {

/// For smaller tensors the savings of codes do not justify their error (Dettmers et al. keep these
/// in 32 bits).
constexpr std::int64_t kLeastCoded = 4096;

std::int64_t blocks_of(std::int64_t elements) {
  constexpr auto block = static_cast<std::int64_t>(kStateBlock);
  return (elements + block - 1) / block;
}

}  // namespace

KeptState::Format KeptState::format_of(const at::Tensor& parameter, StateSign sign,
                                       StatePrecision precision) {
  if (precision == StatePrecision::fp32) return Format::plain;
  if (parameter.scalar_type() != at::kFloat)
    throw usage_error("make optimizer",
                      "parameters in fp32 for a state in " + std::string(to_string(precision)),
                      c10::toString(parameter.scalar_type()),
                      "optim.state = \"fp32\", which keeps it in the parameters' own precision");
  if (precision == StatePrecision::bf16) return Format::bf16;
  if (parameter.numel() < kLeastCoded) return Format::plain;
  return sign == StateSign::any ? Format::signed_codes : Format::unsigned_codes;
}

KeptState::KeptState(const at::Tensor& parameter, StateSign sign, StatePrecision precision,
                     const std::optional<ElementRange>& range)
    : format_(format_of(parameter, sign, precision)),
      origin_(range ? static_cast<std::size_t>(range->begin) : 0) {
  const MemoryTagScope tag(MemoryTag::optimizer);
  const at::TensorOptions options = parameter.options().requires_grad(false);
  const std::vector<std::int64_t> shape =
      range ? std::vector{range->elements} : parameter.sizes().vec();
  if (is_coded()) {
    const int zero = format_ == Format::signed_codes ? static_cast<int>(kSignedZero) : 0;
    values_ = zero == 0 ? memory::zeros(shape, options.dtype(at::kByte))
                        : at::full(shape, zero, options.dtype(at::kByte));
    memory::keep_only(values_);
    scales_ = memory::zeros({blocks_of(values_.numel())}, options);
  } else {
    values_ =
        memory::zeros(shape, format_ == Format::bf16 ? options.dtype(at::kBFloat16) : options);
  }
}

void KeptState::decode(std::size_t begin, std::size_t count, float* to) const {
  if (format_ == Format::bf16)
    return decode_bf16(static_cast<const std::uint16_t*>(values_.const_data_ptr()) + begin, count,
                       to);
  decode_codes(values_.const_data_ptr<std::uint8_t>() + begin,
               scales_.const_data_ptr<float>() + begin / kStateBlock, values_of_codes().data(),
               count, to);
}

void KeptState::encode(std::size_t begin, std::size_t count, const float* from,
                       const RoundingStream& stream) const {
  if (format_ == Format::bf16)
    return encode_bf16(from, count, stream, origin_ + begin,
                       static_cast<std::uint16_t*>(values_.mutable_data_ptr()) + begin);
  std::uint8_t* codes = values_.mutable_data_ptr<std::uint8_t>() + begin;
  float* scales = scales_.mutable_data_ptr<float>() + begin / kStateBlock;
  format_ == Format::signed_codes ? encode_signed(from, count, codes, scales)
                                  : encode_unsigned(from, count, codes, scales);
}

at::Tensor KeptState::whole() const {
  if (is_plain()) return values_;
  return kernels::in_form_of(
      values_, [&] { return decoded_over_memory(); }, [&] { return decoded_by_operators(); });
}

at::Tensor KeptState::decoded_by_operators() const {
  return is_coded() ? state_tensors::decode_codes(values_, scales_, values_of_codes())
                    : values_.to(at::kFloat);
}

at::Tensor KeptState::decoded_over_memory() const {
  at::Tensor all = at::empty(values_.sizes(), at::kFloat);
  decode(0, static_cast<std::size_t>(all.numel()), all.mutable_data_ptr<float>());
  return all;
}

void KeptState::assign(const at::Tensor& whole, const RoundingStream& stream) const {
  if (is_plain()) return;
  kernels::in_form_of(
      values_,
      [&] {
        encode(0, static_cast<std::size_t>(whole.numel()), whole.const_data_ptr<float>(), stream);
      },
      [&] { assign_by_operators(whole.contiguous(), stream); });
}

void KeptState::assign_by_operators(const at::Tensor& whole, const RoundingStream& stream) const {
  if (format_ == Format::bf16)
    values_.copy_(kernels::generic::rounded_stochastically(whole, stream,
                                                           static_cast<std::int64_t>(origin_)));
  else if (format_ == Format::signed_codes)
    state_tensors::encode_signed(whole, values_, scales_);
  else
    state_tensors::encode_unsigned(whole, values_, scales_);
}

const std::array<float, 256>& KeptState::values_of_codes() const {
  return format_ == Format::signed_codes ? kSignedValues : kUnsignedValues;
}

std::vector<at::Tensor> KeptState::memory_of(const ElementRange& range) const {
  constexpr auto block = static_cast<std::int64_t>(kStateBlock);
  std::vector<at::Tensor> touched{values_.view({-1}).narrow(0, range.begin, range.elements)};
  if (scales_.defined())
    touched.push_back(scales_.narrow(0, range.begin / block, blocks_of(range.elements)));
  return touched;
}

std::int64_t KeptState::bytes() const {
  return static_cast<std::int64_t>(values_.nbytes() + (scales_.defined() ? scales_.nbytes() : 0));
}

}  // namespace accrue::optim
