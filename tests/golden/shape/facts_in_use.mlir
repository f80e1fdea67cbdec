// RUN: pydisc opt %s --passes=fuse | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "A", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "B", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "C", min = 0 : i64} : () -> ()

// A*B == C: the reshape folds into the kernel, which reads y where x has it.
func.func private @shape_constraint_graph() {
  %a = "disc_shape.dim"() {symbol = @A} : () -> index
  %b = "disc_shape.dim"() {symbol = @B} : () -> index
  %c = "disc_shape.dim"() {symbol = @C} : () -> index
  "disc_shape.tie_predicate_mul_eq"(%a, %b, %c) {operandSegmentSizes = array<i32: 2, 1>} : (index, index, index) -> ()
  return
}

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = "disc.fusion"
// CHECK: stablehlo.tanh
// CHECK: stablehlo.dynamic_reshape
// CHECK: stablehlo.add
// CHECK-NOT: "disc.fusion"
// CHECK: return %[[Y]]
func.func @main(%x: tensor<?x?xf32, [@A, @B]>, %y: tensor<?xf32, [@C]>) -> tensor<?xf32, [@C]> {
  %d = "disc_shape.dim"() {symbol = @C} : () -> index
  %shape = tensor.from_elements %d : tensor<1xindex>
  %0 = stablehlo.tanh %x : tensor<?x?xf32, [@A, @B]>
  %1 = stablehlo.dynamic_reshape %0, %shape : (tensor<?x?xf32, [@A, @B]>, tensor<1xindex>) -> tensor<?xf32, [@C]>
  %2 = stablehlo.add %1, %y : tensor<?xf32, [@C]>
  return %2 : tensor<?xf32, [@C]>
}
