// RUN: pydisc opt %s --passes=optimize | filecheck %s

// Every symbol and every tie survives the passes, and the facts are in use: the reshape of the
// product is one of the same elements.
// CHECK: "disc_shape.symbolic_dim"() {likely_values = [2, 4], min = 0 : i64, name = "x.shape[0]", sym_name = "A"}
// CHECK: "disc_shape.symbolic_dim"() {divisor = 8 : i64, max = 512 : i64, min = 8 : i64, sym_name = "B"}
// CHECK: "disc_shape.symbolic_dim"() {expr = "2*A + 1", sym_name = "D0"}
"disc_shape.symbolic_dim"() {sym_name = "A", min = 0 : i64, likely_values = [2, 4], name = "x.shape[0]"} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "B", min = 8 : i64, max = 512 : i64, divisor = 8 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "C", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "E", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "D0", expr = "2*A + 1"} : () -> ()

// CHECK-LABEL: func.func private @shape_constraint_graph
// CHECK-SAME: disc_shape.facts = ["A != 3"]
// CHECK: %[[A:.*]] = "disc_shape.dim"() {symbol = @A} : () -> index
// CHECK: %[[B:.*]] = "disc_shape.dim"() {symbol = @B} : () -> index
// CHECK: %[[C:.*]] = "disc_shape.dim"() {symbol = @C} : () -> index
// CHECK: %[[E:.*]] = "disc_shape.dim"() {symbol = @E} : () -> index
// CHECK: %[[D:.*]] = "disc_shape.dim"() {symbol = @D0} : () -> index
// CHECK: "disc_shape.tie_predicate_eq"(%[[C]], %[[E]])
// CHECK: "disc_shape.tie_predicate_lt"(%[[A]], %[[B]])
// CHECK: "disc_shape.tie_predicate_divisible"(%[[B]]) {divisor = 8 : i64}
// CHECK: "disc_shape.tie_predicate_mul_eq"(%[[A]], %[[B]], %[[C]])
// CHECK: "disc_shape.tie_predicate_group_mul_eq"(%[[A]], %[[B]], %[[C]], %[[C]], %[[E]])
// CHECK-SAME: lhs_groups = array<i64: 2, 1>
// CHECK-SAME: rhs_groups = array<i64: 1, 1>
// CHECK: "disc_shape.tie_predicate_affine_eq"(%[[D]], %[[A]]) {map = #map
func.func private @shape_constraint_graph() attributes {disc_shape.facts = ["A != 3"]} {
  %a = "disc_shape.dim"() {symbol = @A} : () -> index
  %b = "disc_shape.dim"() {symbol = @B} : () -> index
  %c = "disc_shape.dim"() {symbol = @C} : () -> index
  %e = "disc_shape.dim"() {symbol = @E} : () -> index
  %d = "disc_shape.dim"() {symbol = @D0} : () -> index
  "disc_shape.tie_predicate_eq"(%c, %e) : (index, index) -> ()
  "disc_shape.tie_predicate_lt"(%a, %b) : (index, index) -> ()
  "disc_shape.tie_predicate_divisible"(%b) {divisor = 8 : i64} : (index) -> ()
  "disc_shape.tie_predicate_mul_eq"(%a, %b, %c) {operandSegmentSizes = array<i32: 2, 1>} : (index, index, index) -> ()
  "disc_shape.tie_predicate_group_mul_eq"(%a, %b, %c, %c, %e) {lhs_groups = array<i64: 2, 1>, rhs_groups = array<i64: 1, 1>, operandSegmentSizes = array<i32: 3, 2>} : (index, index, index, index, index) -> ()
  "disc_shape.tie_predicate_affine_eq"(%d, %a) {map = affine_map<(d0) -> (2 * d0 + 1)>, operandSegmentSizes = array<i32: 1, 1>} : (index, index) -> ()
  return
}

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.tanh
func.func @main(%x: tensor<?x?xf32, [@A, @B]>, %y: tensor<?xf32, [@D0]>) -> (tensor<?x?xf32, [@A, @B]>, tensor<?xf32, [@D0]>) {
  %0 = stablehlo.tanh %x : tensor<?x?xf32, [@A, @B]>
  return %0, %y : tensor<?x?xf32, [@A, @B]>, tensor<?xf32, [@D0]>
}
