#include "accrue/accum/gradient_buffer.h"

#include <algorithm>
#include <unordered_set>

#include "accrue/core/error.h"

namespace accrue::accum {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

void check_parameter(const NamedParameter& parameter) {
  const auto refuse = [&](const char* received, const char* suggestion) {
    throw usage_error("gradient buffer", "floating-point leaf tensors as parameters",
                      "'" + parameter.name + "', which " + received, suggestion);
  };
  if (!parameter.tensor.defined()) refuse("is undefined", "leaving it out");
  if (!parameter.tensor.is_leaf())
    refuse("is the result of an operation", "the tensor it was computed from, or detach() of it");
  if (!parameter.tensor.requires_grad()) return;
  if (!at::isFloatingType(parameter.tensor.scalar_type()))
    refuse("is not floating point", "real parameters (torch::view_as_real of a complex one)");
  if (parameter.tensor.layout() != at::kStrided)
    refuse("is not a dense strided tensor", "to_dense() of it");
}

void check_names(const NamedParameters& parameters) {
  std::unordered_set<std::string> names;
  for (const NamedParameter& parameter : parameters)
    if (!names.insert(parameter.name).second)
      throw usage_error("gradient buffer", "a name of its own for each parameter",
                        "'" + parameter.name + "' twice", "numbering them, or registering once");
}

std::vector<GradientBuffer::Entry> trained_entries(const NamedParameters& parameters) {
  std::vector<GradientBuffer::Entry> entries;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.requires_grad() &&
        seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      entries.push_back({parameter.name, parameter.tensor, nullptr});
  return entries;
}

/// The slots that share one allocation.
struct Group {
  at::TensorOptions options;
  std::int64_t elements = 0;
  std::vector<std::pair<GradientBuffer::Entry*, std::int64_t>> offsets;
};

at::TensorOptions slot_options(const at::Tensor& parameter) {
  const bool is_double = parameter.scalar_type() == at::kDouble;
  return at::TensorOptions().device(parameter.device()).dtype(is_double ? at::kDouble : at::kFloat);
}

Group& group_of(std::vector<Group>& groups, const at::TensorOptions& options) {
  for (Group& group : groups)
    if (group.options.device() == options.device() && group.options.dtype() == options.dtype())
      return group;
  return groups.emplace_back(Group{options, 0, {}});
}

std::vector<Group> lay_out(std::vector<GradientBuffer::Entry>& entries) {
  std::vector<Group> groups;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const at::TensorOptions options = slot_options(entry->parameter);
    Group& group = group_of(groups, options);
    group.offsets.emplace_back(&*entry, group.elements);
    const std::int64_t unit =
        kAlignmentBytes / static_cast<std::int64_t>(options.dtype().itemsize());
    group.elements += (entry->parameter.numel() + unit - 1) / unit * unit;
  }
  return groups;
}

at::Tensor allocate(const Group& group) {
  at::Tensor flat = at::zeros({group.elements}, group.options);
  for (const auto& [entry, offset] : group.offsets)
    entry->slot = std::make_shared<kernels::GradSlot>(
        flat.narrow(0, offset, entry->parameter.numel()).view(entry->parameter.sizes()));
  return flat;
}

}  // namespace

GradientBuffer::GradientBuffer(const NamedParameters& parameters) {
  for (const NamedParameter& parameter : parameters) check_parameter(parameter);
  check_names(parameters);
  entries_ = trained_entries(parameters);
  const at::NoGradGuard no_grad;
  for (const Group& group : lay_out(entries_)) flat_.push_back(allocate(group));
  try {
    claim();
  } catch (...) {
    release();
    throw;
  }
}

GradientBuffer::~GradientBuffer() { release(); }

void GradientBuffer::release() {
  for (const Entry& entry : entries_)
    if (kernels::slot_of(entry.parameter) == entry.slot.get()) kernels::detach(entry.parameter);
}

std::int64_t GradientBuffer::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& flat : flat_) bytes += static_cast<std::int64_t>(flat.nbytes());
  return bytes;
}

void GradientBuffer::claim() {
  for (const Entry& entry : entries_)
    if (const kernels::GradSlot* owner = kernels::slot_of(entry.parameter);
        owner != nullptr && owner->in_window)
      throw usage_error("gradient buffer", "parameters that no open window is accumulating",
                        "'" + entry.name + "', which belongs to one",
                        "stepping or discarding that window first, or one accumulator for both");
  for (const Entry& entry : entries_)
    if (kernels::slot_of(entry.parameter) != entry.slot.get())
      kernels::attach(entry.parameter, entry.slot);
}

bool grad_can_view_slot(const GradientBuffer::Entry& entry) {
  return entry.slot->main.scalar_type() == entry.parameter.scalar_type();
}

}  // namespace accrue::accum
