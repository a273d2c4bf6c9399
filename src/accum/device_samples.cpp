#include "accum/device_samples.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

constexpr std::int64_t kElements = 64;

std::int64_t step_through(std::int64_t elements) {
  return std::max<std::int64_t>(1, elements / kElements);
}

at::Tensor view_of(const at::Tensor& parameter) {
  const at::Tensor all = parameter.detach();
  const at::Tensor flat =
      all.is_non_overlapping_and_dense() ? all.as_strided({all.numel()}, {1}) : all.reshape({-1});
  const std::int64_t step = step_through(flat.numel());
  return flat.slice(0, 0, std::min(flat.numel(), kElements * step), step);
}

at::Tensor joined(const std::vector<at::Tensor>& bytes) {
  return bytes.empty() ? at::Tensor() : at::cat(bytes);
}

}  // namespace

DeviceSamples::DeviceSamples(const GradientBuffer& buffer) : buffer_(buffer) {
  group_parameters();
  make_sums();
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
    if (!elements.empty())
      sums_.push_back({flat, at::tensor(elements, at::kLong).to(flat.device())});
  }
}

void DeviceSamples::renew_views(Parameters& group) const {
  std::vector<const void*> places;
  for (const std::size_t index : group.of)
    places.push_back(buffer_.entries()[index].parameter.const_data_ptr());
  if (places == group.places) return;
  group.views.clear();
  for (const std::size_t index : group.of)
    group.views.push_back(view_of(buffer_.entries()[index].parameter));
  group.places = std::move(places);
}

at::Tensor DeviceSamples::bytes_of_parameters() {
  std::vector<at::Tensor> bytes;
  for (Parameters& group : parameters_) {
    renew_views(group);
    bytes.push_back(at::cat(group.views).view(at::kByte));
  }
  return joined(bytes);
}

at::Tensor DeviceSamples::bytes_of_sums() const {
  std::vector<at::Tensor> bytes;
  for (const Sums& sums : sums_)
    bytes.push_back(sums.flat.index_select(0, sums.elements).view(at::kByte));
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
  if (!seen_parameters_.defined()) return {};
  std::vector<at::Tensor> differing{bytes_of_parameters().ne(seen_parameters_)};
  if (differs_.defined()) differing.push_back(differs_);
  const at::Tensor on_host = at::cat(differing).cpu();
  const bool* differs = on_host.const_data_ptr<bool>();
  std::vector<Found> found;
  const auto look = [&](const std::vector<Part>& parts, bool are_parameters) {
    for (const Part& part : parts)
      if (std::any_of(differs + part.begin, differs + part.end, [](bool one) { return one; }))
        found.push_back({part.index, are_parameters});
    differs += parts.back().end;
  };
  look(parts_of_parameters_, true);
  if (differs_.defined()) look(parts_of_sums_, false);
  return found;
}

}  // namespace accrue::accum
