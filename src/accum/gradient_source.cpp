#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "accrue/accum/gradient_buffer.h"
#include "accum/staged_sum.h"

namespace accrue::accum {
namespace {

constexpr std::int64_t kGrainElements = 1 << 15;

template <class T>
void read_tensor(const at::Tensor& source, std::int64_t first, std::int64_t count, T* to) {
  const bool is_near = source.is_cpu();
  const at::Tensor tensor = is_near ? source : source.view({-1}).narrow(0, first, count).cpu();
  const std::int64_t begin = is_near ? first : 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, tensor.scalar_type(), "read_gradient", [&] {
        const scalar_t* from = tensor.const_data_ptr<scalar_t>() + begin;
        std::transform(from, from + count, to,
                       [](scalar_t value) { return static_cast<T>(value); });
      });
}

template <class T>
at::Tensor copy_as(const GradientSource& source, double scale, const at::Tensor& parameter) {
  if (source.tensor.defined() && !source.tensor.is_cpu())
    return (source.tensor * scale).view(parameter.sizes()).to(parameter.scalar_type());
  if (source.staged && !source.staged->is_in_memory())
    return source.staged->values(c10::CppTypeToScalarType<T>::value)
        .mul_(scale)
        .view(parameter.sizes())
        .to(parameter.scalar_type());
  at::Tensor values = at::empty(parameter.sizes(), at::dtype(c10::CppTypeToScalarType<T>::value));
  T* to = values.mutable_data_ptr<T>();
  at::parallel_for(0, values.numel(), kGrainElements, [&](std::int64_t begin, std::int64_t end) {
    source.read(begin, end - begin, to + begin);
  });
  return values.mul_(scale).to(parameter.scalar_type());
}

}  // namespace

GradientSource GradientSource::part(const ElementRange& range) const {
  if (staged) return {.staged = staged, .first = first + range.begin};
  return {.tensor = tensor.view({-1}).narrow(0, range.begin, range.elements)};
}

void GradientSource::read(std::int64_t begin, std::int64_t count, float* to) const {
  staged ? staged->read(first + begin, count, to) : read_tensor(tensor, begin, count, to);
}

void GradientSource::read(std::int64_t begin, std::int64_t count, double* to) const {
  staged ? staged->read(first + begin, count, to) : read_tensor(tensor, begin, count, to);
}

std::vector<at::Tensor> GradientSource::memory_of(const ElementRange& range) const {
  const std::int64_t begin = staged ? first + range.begin : range.begin;
  std::vector<at::Tensor> touched;
  for (const at::Tensor& whole : staged ? staged->tensors() : std::vector{tensor})
    touched.push_back(whole.view({-1}).narrow(0, begin, range.elements));
  return touched;
}

GradientSource GradientSource::on_host() const {
  if (staged && !staged->is_in_memory()) {
    const at::Tensor all = staged->values(at::kDouble).cpu().view({-1});
    return {.tensor = all.narrow(0, first, all.numel() - first)};
  }
  if (tensor.defined() && !tensor.is_cpu()) return {.tensor = tensor.cpu()};
  return *this;
}

at::Tensor GradientSource::scaled_copy(double scale, const at::Tensor& parameter) const {
  return parameter.scalar_type() == at::kDouble ? copy_as<double>(*this, scale, parameter)
                                                : copy_as<float>(*this, scale, parameter);
}

GradientSource source_of(const GradientBuffer::Entry& entry) {
  if (entry.staged) return {.staged = entry.staged};
  return {.tensor = entry.slot->main};
}

}  // namespace accrue::accum
