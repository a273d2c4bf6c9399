#pragma once

#include <memory>
#include <typeinfo>
#include <utility>

namespace accrue::batch {

/// Samples as a batch type of a program's own: made by its source, read by its loss function, and
/// carried by everything in between without a look into it. Copies share it.
class OwnBatch {
 public:
  /// None.
  OwnBatch() = default;
  template <class Batch>
  static OwnBatch of(Batch batch) {
    return {std::make_shared<const Batch>(std::move(batch)), typeid(Batch)};
  }

  bool is_there() const { return batch_ != nullptr; }
  /// The batch. Throws a usage Error that names both types where the source made none, or one of
  /// another type.
  template <class Batch>
  const Batch& as() const {
    if (type_ == nullptr || *type_ != typeid(Batch)) refuse(typeid(Batch));
    return *static_cast<const Batch*>(batch_.get());
  }

 private:
  OwnBatch(std::shared_ptr<const void> batch, const std::type_info& type)
      : batch_(std::move(batch)), type_(&type) {}
  [[noreturn]] void refuse(const std::type_info& expected) const;

  std::shared_ptr<const void> batch_;
  const std::type_info* type_ = nullptr;
};

}  // namespace accrue::batch
