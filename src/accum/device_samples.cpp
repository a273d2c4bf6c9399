#include "accum/device_samples.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accum/element_place.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

constexpr std::int64_t kElements = 64;

std::int64_t step_through(std::int64_t elements) {
  return std::max<std::int64_t>(1, elements / kElements);
}

/// The number of elements of memory that a tensor spans.
std::int64_t extent_of(const at::Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension)
    last += (tensor.size(dimension) - 1) * tensor.stride(dimension);
  return last + 1;
}

at::Tensor there(const std::vector<std::int64_t>& elements, at::Device device) {
  return at::tensor(elements, at::kLong).to(device);
}

at::Tensor joined(const std::vector<at::Tensor>& bytes) {
  return bytes.empty() ? at::Tensor() : at::cat(bytes);
}

}  // namespace

DeviceSamples::DeviceSamples(const GradientBuffer& buffer, bool parameters) : buffer_(buffer) {
  if (parameters) group_parameters();
  make_sums();
}

/// A parameter with gaps has no flat view: its elements are selected from the memory that it
/// spans.
DeviceSamples::SampledElements DeviceSamples::taken_of(const at::Tensor& parameter) {
  const at::Tensor all = parameter.detach();
  const std::int64_t count = std::min(all.numel(), kElements);
  const std::int64_t step = step_through(all.numel());
  if (all.is_non_overlapping_and_dense()) return {all.as_strided({count}, {step}), {}};
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(place_of(all, i * step));
  return {all.as_strided({extent_of(all)}, {1}), there(elements, all.device())};
}

void DeviceSamples::group_parameters() {
  const std::vector<Entry>& entries = buffer_.entries();
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const at::ScalarType dtype = entries[index].parameter.scalar_type();
    const auto group = std::ranges::find_if(parameters_, [&](const Parameters& of) {
      return entries[of.of.front()].parameter.scalar_type() == dtype;
    });
    if (group == parameters_.end())
      parameters_.push_back({{index}, {}, {}});
    else
      group->of.push_back(index);
  }
  std::int64_t end = 0;
  for (const Parameters& group : parameters_)
    for (const std::size_t index : group.of) {
      const at::Tensor& parameter = entries[index].parameter;
      const std::int64_t begin = end;
      end +=
          std::min(parameter.numel(), kElements) * static_cast<std::int64_t>(parameter.itemsize());
      parts_of_parameters_.push_back({index, begin, end});
    }
}

void DeviceSamples::make_sums() {
  const std::vector<Entry>& entries = buffer_.entries();
  std::int64_t end = 0;
  for (const at::Tensor& flat : buffer_.flat()) {
    std::vector<std::int64_t> elements;
    for (std::size_t index = 0; index < entries.size(); ++index) {
      const Entry& entry = entries[index];
      const at::Tensor& sum = entry.slot->main;
      if (entry.staged || !sum.is_alias_of(flat)) continue;
      const std::int64_t count = std::min(sum.numel(), kElements);
      for (std::int64_t i = 0; i < count; ++i)
        elements.push_back(sum.storage_offset() + i * step_through(sum.numel()));
      const std::int64_t begin = end;
      end += count * static_cast<std::int64_t>(sum.itemsize());
      parts_of_sums_.push_back({index, begin, end});
    }
    if (!elements.empty()) sums_.push_back({flat, there(elements, flat.device())});
  }
}

void DeviceSamples::renew_places(Parameters& group) const {
  std::vector<const void*> places;
  for (const std::size_t index : group.of)
    places.push_back(buffer_.entries()[index].parameter.const_data_ptr());
  if (places == group.places) return;
  group.taken.clear();
  for (const std::size_t index : group.of)
    group.taken.push_back(taken_of(buffer_.entries()[index].parameter));
  group.places = std::move(places);
}

at::Tensor DeviceSamples::bytes_of_parameters() {
  std::vector<at::Tensor> bytes;
  for (Parameters& group : parameters_) {
    renew_places(group);
    std::vector<at::Tensor> values;
    for (const SampledElements& taken : group.taken) values.push_back(taken.values());
    bytes.push_back(at::cat(values).view(at::kByte));
  }
  return joined(bytes);
}

at::Tensor DeviceSamples::bytes_of_sums() const {
  std::vector<at::Tensor> bytes;
  for (const SampledElements& sums : sums_) bytes.push_back(sums.values().view(at::kByte));
  return joined(bytes);
}

void DeviceSamples::begin_window() {
  seen_parameters_ = bytes_of_parameters();
  see_sums();
  differs_.reset();
}

void DeviceSamples::compare_sums() {
  if (!seen_sums_.defined()) return;
  const at::Tensor differs = bytes_of_sums().ne(seen_sums_);
  differs_ = differs_.defined() ? differs_.logical_or(differs) : differs;
}

std::vector<DeviceSamples::Found> DeviceSamples::found() {
  std::vector<at::Tensor> differing;
  if (seen_parameters_.defined()) differing.push_back(bytes_of_parameters().ne(seen_parameters_));
  if (differs_.defined()) differing.push_back(differs_);
  if (differing.empty()) return {};
  const at::Tensor on_host = at::cat(differing).cpu();
  const bool* differs = on_host.const_data_ptr<bool>();
  std::vector<Found> found;
  const auto look = [&](const std::vector<Part>& parts, bool are_parameters) {
    for (const Part& part : parts)
      if (std::any_of(differs + part.begin, differs + part.end, [](bool one) { return one; }))
        found.push_back({part.index, are_parameters});
    differs += parts.back().end;
  };
  if (seen_parameters_.defined()) look(parts_of_parameters_, true);
  if (differs_.defined()) look(parts_of_sums_, false);
  return found;
}

}  // namespace accrue::accum
